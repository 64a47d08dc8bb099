use super::*;

#[test]
fn scales_place_values() {
    let scale = Scale::linear(0.0..10.0, 100.0..200.0);
    assert_eq!(
        [0.0, 5.0, 10.0, -3.0, 99.0].map(|value| scale.at(value)),
        [100.0, 150.0, 200.0, 100.0, 200.0]
    );
    let scale = Scale::logarithmic(1.0..100.0, 0.0..2.0);
    assert!((scale.at(10.0) - 1.0).abs() < 1e-12);
    assert!(!Scale::logarithmic(0.0..1.0, 0.0..1.0).is_logarithmic());
    // An empty range has a middle too.
    assert!(Scale::linear(3.0..3.0, 0.0..1.0).at(3.0).is_finite());
}

#[test]
fn ticks_are_round_and_within() {
    let texts = |scale: Scale, count| -> Vec<String> {
        scale.ticks(count).into_iter().map(|(_, text)| text).collect()
    };
    assert_eq!(
        texts(Scale::linear(0.0..1.0e6, 0.0..1.0), 5),
        ["0", "200 k", "400 k", "600 k", "800 k", "1 M"]
    );
    assert_eq!(texts(Scale::logarithmic(6.0..60.0, 0.0..1.0), 3), ["10", "20", "50"]);
    for (low, high) in [(0.0, 1e-6), (3.0, 1e12), (0.9, 1.1), (1e-9, 1e9), (7.0, 7.0)] {
        for scale in [Scale::linear(low..high, 0.0..1.0), Scale::logarithmic(low..high, 0.0..1.0)] {
            let ticks = scale.ticks(6);
            assert!(!ticks.is_empty() && ticks.len() <= 8, "{low} {high}: {ticks:?}");
        }
    }
}

#[test]
fn the_colour_of_a_load_goes_from_grey_to_red() {
    assert_eq!(load_colour(0.0), "#bec8d4");
    assert_eq!(load_colour(1.0), "#de4c46");
    assert_eq!((load_colour(f64::NAN), load_colour(7.0)), (load_colour(0.0), load_colour(1.0)));
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[test]
fn bars_have_lengths_in_proportion() {
    let bar = |label: &str, value| Bar { label: label.to_owned(), value, hint: String::new() };
    let drawing = bars("two", "/s", &[bar("<one>", 100.0), bar("two", 50.0), bar("zero", 0.0)]);
    let widths: Vec<f64> = drawing
        .split("<rect ")
        .skip(1)
        .map(|part| part.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
        .collect();
    assert!((widths[0] - 2.0 * widths[1]).abs() < 0.2, "{widths:?}");
    assert_eq!(widths[2], 1.0);
    assert!(drawing.contains("&lt;one&gt;") && drawing.contains("100/s"), "{drawing}");
    // An empty drawing is no error.
    bars("none", "", &[]);
}

#[test]
fn a_gauge_shows_what_there_is() {
    let full = Gauge { published: Some(18.5), accept: (9.2, 37.0), measured: Some(3.0) };
    let drawing = gauge("g", &full);
    assert!(drawing.contains("published 18.5") && drawing.contains("measured 3"), "{drawing}");
    assert!(drawing.contains("class=\"bad strong\"") && !drawing.contains("var(--good)"));
    let drawing = gauge("g", &Gauge { measured: Some(37.0), ..full });
    assert!(drawing.contains("class=\"good strong\""));
    let drawing = gauge("g", &Gauge { published: None, measured: None, ..full });
    assert_eq!((count(&drawing, "published"), count(&drawing, "measured")), (0, 0));
    for value in [0.0, -5.0, 1e300, 1e-300] {
        let drawing =
            gauge("g", &Gauge { published: Some(value), accept: (value, value), measured: Some(value) });
        assert!(!drawing.contains("NaN") && !drawing.contains("inf"), "{value}: {drawing}");
    }
}

fn two_lines() -> Lines {
    let series = |name: &str, values: &[f64]| Series {
        name: name.to_owned(),
        values: values.to_vec(),
        ..Series::default()
    };
    Lines {
        label: "l".to_owned(),
        x_name: "--cores".to_owned(),
        y_name: "y".to_owned(),
        positions: vec![1.0, 2.0, 4.0, 64.0],
        names: None,
        logarithmic: true,
        dots: true,
        height: 260.0,
        marks: Vec::new(),
        series: vec![series("a", &[1.0, 2.0, 3.0, 50.0]), series("b", &[2.0, 2.0, 2.0, 2.0])],
    }
}

#[test]
fn lines_have_a_dot_a_value_and_a_legend() {
    let drawing = lines(&two_lines());
    // A marker of each series in the legend, and one for each value.
    assert_eq!((count(&drawing, "<circle"), count(&drawing, "<polygon")), (5, 5));
    assert_eq!(count(&drawing, "<polyline"), 4);
    for label in [">1</text>", ">64</text>", ">a</text>", ">--cores</text>"] {
        assert!(drawing.contains(label), "{label} in {drawing}");
    }
    let empty = Lines { positions: vec![], series: vec![], ..two_lines() };
    let zeros = Lines {
        series: vec![Series { name: "z".to_owned(), values: vec![0.0; 4], dashed: true, like: None }],
        ..two_lines()
    };
    for odd in [empty, zeros] {
        let drawing = lines(&odd);
        assert!(!drawing.contains("NaN") && !drawing.contains("inf"), "{drawing}");
    }
}

#[test]
fn a_missing_value_is_a_gap() {
    let mut with_gap = two_lines();
    with_gap.series[0].values[1] = f64::NAN;
    let drawing = lines(&with_gap);
    assert_eq!((count(&drawing, "<circle"), count(&drawing, "<polyline")), (4, 5));
    assert!(!drawing.contains("NaN"), "{drawing}");
}

#[test]
fn a_long_legend_has_rows() {
    let series = |number: usize| Series {
        name: format!("a series with a long name, {number}"),
        values: vec![1.0; 4],
        dashed: false,
        like: None,
    };
    let drawing = lines(&Lines { series: (0..7).map(series).collect(), ..two_lines() });
    for y in ["31.0", "49.0"] {
        assert!(
            drawing.contains(&format!("y=\"{y}\" text-anchor=\"start\" class=\"small\">a series")),
            "{y}"
        );
    }
}

#[test]
fn what_happened_is_marked() {
    let marks = vec![(2.0, "mix=full".to_owned()), (60.0, "hot=0.5:0.2 & more".to_owned())];
    let drawing = lines(&Lines { marks, ..two_lines() });
    assert_eq!(count(&drawing, "<polyline"), count(&lines(&two_lines()), "<polyline") + 2);
    assert!(drawing.contains(">mix=full</text>") && drawing.contains(">hot=0.5:0.2 &amp; more</text>"));
}

#[test]
fn a_stack_leaves_out_what_is_not_there() {
    let share = |name: &str, share, colour| Share { name: name.to_owned(), share, colour };
    let drawing = stack("s", &[share("useful", 0.7, 0), share("log", 0.0, 8), share("wait", 0.3, 5)]);
    assert!(drawing.contains("useful 70.0 %") && drawing.contains("var(--c5)") && !drawing.contains("log"));
    assert_eq!(count(&drawing, "<rect"), 4);
}

fn three_columns() -> String {
    let column = |group: &str, values: [f64; 2]| Column {
        group: group.to_owned(),
        values: values.to_vec(),
        marks: Vec::new(),
        hint: "<core>".to_owned(),
    };
    let all =
        [column("socket 0", [1.0, 2.0]), column("socket 0", [4.0, 2.0]), column("socket 1", [0.0, 2.0])];
    columns("c", &["before", "after"], &all, 200.0, Some((2.0, "mean")))
}

#[test]
fn columns_stand_in_groups() {
    let drawing = three_columns();
    // Two for the legend, and two for each column.
    assert_eq!(count(&drawing, "<rect "), 2 + 3 * 2);
    assert_eq!((count(&drawing, ">socket 0</text>"), count(&drawing, ">socket 1</text>")), (1, 1));
    let height = |hint: &str| -> f64 {
        let part = drawing.split("<rect ").find(|part| part.contains(hint)).expect("a column");
        part.split("height=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    };
    assert!((height("before 4") - 2.0 * height("after 2")).abs() < 0.2, "{drawing}");
    assert!(drawing.contains("&lt;core&gt;: before 4") && drawing.contains(">mean</text>"));
    columns("none", &[], &[], 200.0, None);
}

fn two_maps() -> String {
    let maps = vec![
        ("before".to_owned(), vec![vec![0.0, 0.5], vec![0.5, 0.0]]),
        ("after".to_owned(), vec![vec![0.0, 0.25], vec![0.25, 0.0]]),
    ];
    heat_maps(&HeatMaps { label: "h".to_owned(), thing: "socket".to_owned(), maps })
}

#[test]
fn maps_side_by_side_have_the_same_colours() {
    let drawing = two_maps();
    assert_eq!(count(&drawing, "<rect "), 8);
    assert_eq!(count(&drawing, &load_colour(1.0)), 2);
    assert_eq!(count(&drawing, &load_colour(0.5)), 2);
    assert!(
        drawing.contains("before, socket 0 and socket 1: 50.0 %") && drawing.contains(">socket 1</text>")
    );
    // All values are zero: no colour at all.
    let nothing = vec![("n".to_owned(), vec![vec![0.0]])];
    let empty = heat_maps(&HeatMaps { label: String::new(), thing: String::new(), maps: nothing });
    assert!(empty.contains(&load_colour(0.0)) && !empty.contains("NaN"));
    heat_maps(&HeatMaps { label: String::new(), thing: String::new(), maps: Vec::new() });
}

fn one_strip() -> String {
    let segment = |from, to, colour, name: &str| Segment {
        from,
        to,
        colour,
        name: name.to_owned(),
        hint: format!("<{name}>"),
    };
    let segments = vec![segment(0.0, 0.75, 0, "core 0"), segment(0.75, 0.76, 11, "core 1")];
    strips("s", &[Strip { name: "rows".to_owned(), segments }], &[(0, "socket 0".to_owned())])
}

#[test]
fn strips_name_what_has_room() {
    let drawing = one_strip();
    assert_eq!(count(&drawing, "<rect "), 3);
    assert!(drawing.contains(">core 0</text>") && !drawing.contains(">core 1</text>"), "{drawing}");
    assert!(drawing.contains("&lt;core 1&gt;") && drawing.contains("var(--c1)"));
}

#[test]
fn drawings_are_well_formed() {
    let all = [lines(&two_lines()), stack("<&\"", &[]), heat_map(), three_columns(), two_maps(), one_strip()];
    for drawing in all {
        assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"));
        for element in ["text", "svg"] {
            let opened = count(&drawing, &format!("<{element} "));
            assert_eq!(opened, count(&drawing, &format!("</{element}>")), "{drawing}");
        }
    }
}

fn heat_map() -> String {
    let mut drawing = Drawing::new(10.0, "h");
    let area = Rectangle { x: 0.0, y: 0.0, width: 1.0, height: 1.0 };
    drawing.rectangle(area, 0.0, &load_colour(0.5), "<hint>");
    drawing.frame(Rectangle { x: 0.0, y: 0.0, width: 1.0, height: 1.0 }, 0.0, "red");
    drawing.text(0.0, 0.0, Anchor::End, "muted", "<x>");
    drawing.finish()
}
