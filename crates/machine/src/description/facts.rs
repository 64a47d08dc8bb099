//! Content of a description file, before the rules fill in missing values.

use super::core::{self, CoreFacts};
use super::fact::{Confidence, Fact, FactMatrix};
use super::keys::{DescriptionError, Keys, confidence};
use super::shape::{self, Shape};
use super::tlbs;
use super::translation::Translation;
use super::value::{Network, SmtShare};

/// Values over nodes, in one of the forms of a file.
#[derive(Clone, Debug)]
pub(super) enum NodeValues {
    /// One value for each number of hops, from 0.
    ByHops(Vec<Fact<f64>>),
    /// One value for each node, from the view of node 0.
    FromFirst(Vec<f64>, Confidence, String),
    /// All values.
    Full(FactMatrix),
}

/// Transfer costs of a line, as in a file.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    /// From a core behind the same L3, if that differs from the same socket.
    pub(super) same_domain: Option<Fact<f64>>,
    /// From a core of the same socket, one hop away, two hops away.
    pub(super) by_hops: Vec<Fact<f64>>,
}

/// Transfer costs of one kind of access, by state of the line.
#[derive(Clone, Debug, Default)]
pub(super) struct Transfers {
    pub(super) modified: Option<Transfer>,
    pub(super) exclusive: Option<Transfer>,
    pub(super) shared: Option<Transfer>,
}

/// Sizes in bytes and latencies in cycles of the caches.
#[derive(Clone, Debug)]
pub(super) struct Caches {
    pub(super) l1_bytes: u64,
    pub(super) l2_bytes: u64,
    /// Capacity of one L3 domain.
    pub(super) l3_bytes: Option<u64>,
    pub(super) l1_cycles: Fact<f64>,
    pub(super) l2_cycles: Fact<f64>,
    pub(super) l3_cycles: Option<Fact<f64>>,
}

/// All values of a file.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) name: String,
    pub(super) processor: String,
    pub(super) links: String,
    pub(super) confidence: Confidence,
    pub(super) source: String,
    pub(super) shape: Shape,
    pub(super) machines: usize,
    pub(super) network: Option<Network>,
    pub(super) year: Option<usize>,
    pub(super) memory_bytes: u64,
    pub(super) clock_ghz: Fact<f64>,
    pub(super) line_bytes: Option<Fact<u32>>,
    pub(super) caches: Caches,
    pub(super) memory_ns: NodeValues,
    pub(super) memory_gbps: Option<NodeValues>,
    pub(super) link_gbps: Option<Fact<f64>>,
    pub(super) node_links: Option<Fact<u32>>,
    pub(super) load: Transfers,
    pub(super) store: Transfers,
    pub(super) atomic: Transfers,
    pub(super) core: CoreFacts,
    pub(super) translation: Option<Translation>,
    /// An atomic on an own line, in ns.
    pub(super) own_atomic: Option<Fact<f64>>,
    /// Shares of two siblings and more; empty if they follow from the rule.
    pub(super) smt_shares: Vec<SmtShare>,
    /// Dirty-line costs between all nodes, if measured.
    pub(super) dirty_line: Option<FactMatrix>,
}

const KEYS: &[&str] = &[
    "name",
    "processor",
    "links",
    "confidence",
    "source",
    "sockets",
    "cores_per_socket",
    "smt",
    "year",
    "sockets_per_chassis",
    "hops_in_chassis",
    "hops_between_chassis",
    "cores_per_complex",
    "unusable_cores",
    "adjacency",
    "machines",
    "network",
    "network_one_way_us",
    "network_gbps",
    "network_header_bytes",
    "network_packet_bytes",
    "clock_ghz",
    "line_bytes",
    "l1d",
    "l2",
    "l3_shared",
    "l3_per_core",
    "l3_per_complex",
    "memory_gib",
    "memory_ns",
    "memory_ns_from_node_0",
    "memory_gbps",
    "memory_gbps_from_node_0",
    "link_gbps",
    "node_links",
    "load_to_use_cycles",
    "dirty_line_transfer_ns",
    "load_cycles",
    "store_cycles",
    "atomic_cycles",
    "cycles_of",
    "core",
    "core_family",
    "estimate",
];

/// A reader of one file: its keys, those below `estimate`, and the confidence and source of values
/// without their own.
struct Reader<'a> {
    keys: &'a Keys,
    estimates: Option<Keys>,
    confidence: Confidence,
    source: String,
    /// Confidence and source of cycle counts taken from another machine.
    borrowed: Option<(Confidence, String)>,
    borrowed_keys: Option<Keys>,
    most_hops: usize,
}

/// Reads the facts of a description; `name` is used if the file has none.
pub(super) fn read(keys: &Keys, name: &str) -> Result<Facts, DescriptionError> {
    keys.only(KEYS)?;
    let shape = shape::read(keys)?;
    let mut reader = Reader {
        keys,
        estimates: keys.below("estimate")?,
        confidence: confidence(keys)?,
        source: keys.text("source")?.unwrap_or_else(|| "machine description".to_owned()),
        borrowed: None,
        borrowed_keys: None,
        most_hops: shape.most_hops(),
    };
    reader.borrow()?;
    let clock_ghz = reader.fact("clock_ghz")?.ok_or_else(|| keys.missing("clock_ghz"))?;
    let caches = reader.caches(&shape)?;
    let mut facts = Facts {
        name: keys.text("name")?.unwrap_or_else(|| name.to_owned()),
        processor: keys.text("processor")?.unwrap_or_default(),
        links: keys.text("links")?.unwrap_or_default(),
        confidence: reader.confidence,
        source: reader.source.clone(),
        machines: shape::machines(keys, shape.sockets * shape.cores_per_socket * shape.smt)?,
        network: reader.network()?,
        year: keys.count("year")?,
        memory_bytes: (keys.required_number("memory_gib")? * (1_u64 << 30) as f64) as u64,
        line_bytes: reader.fact("line_bytes")?.map(|fact| keys.line_bytes(fact)).transpose()?,
        caches,
        memory_ns: reader.memory_ns(clock_ghz.value, shape.sockets)?,
        memory_gbps: reader.node_values("memory_gbps", shape.sockets)?,
        link_gbps: reader.fact("link_gbps")?,
        node_links: reader.fact("node_links")?.map(|fact| Fact {
            value: fact.value as u32,
            confidence: fact.confidence,
            source: fact.source,
        }),
        load: reader.transfers("load_cycles", clock_ghz.value)?,
        store: reader.transfers("store_cycles", clock_ghz.value)?,
        atomic: reader.transfers("atomic_cycles", clock_ghz.value)?,
        dirty_line: None,
        core: CoreFacts::default(),
        translation: None,
        own_atomic: None,
        smt_shares: Vec::new(),
        clock_ghz,
        shape,
    };
    reader.core(&mut facts)?;
    reader.dirty_line(&mut facts)?;
    Ok(facts)
}

impl Reader<'_> {
    /// Finds the machine whose cycle counts are used if this one has none.
    fn borrow(&mut self) -> Result<(), DescriptionError> {
        let Some(lender) = self.keys.below("cycles_of")? else { return Ok(()) };
        lender.only(&["machine", "confidence"])?;
        let name = lender.text("machine")?.ok_or_else(|| lender.missing("machine"))?;
        let table = super::shipped::table(&name)
            .ok_or_else(|| lender.invalid("machine", &name, "a machine that ships with Isles"))?;
        self.borrowed = Some((confidence(&lender)?, format!("rule: cycle counts of {name}")));
        self.borrowed_keys = Some(Keys::of(table));
        Ok(())
    }

    /// The table `core`; values that it omits come from the processor's family.
    fn core(&self, facts: &mut Facts) -> Result<(), DescriptionError> {
        let family = match self.keys.text("core_family")? {
            None => None,
            Some(name) => Some(super::shipped::family(&name).ok_or_else(|| {
                let expected = format!("one of {}", super::shipped::families().join(", "));
                self.keys.invalid("core_family", &name, &expected)
            })?),
        };
        for table in self.keys.below("core")?.into_iter().chain(family.map(Keys::of)) {
            let read = |table: &Keys, key: &str| self.core_fact(table, key, facts.clock_ghz.value);
            let given = core::read(&table, &[OWN_ATOMIC, SMT_SHARES, TLB], read)?;
            let tlb = table.below(TLB)?.map(|tlb| tlbs::read(&tlb, read)).transpose()?;
            facts.translation = facts.translation.take().or(tlb);
            let own_atomic = table.has(OWN_ATOMIC).then(|| read(&table, OWN_ATOMIC)).transpose()?;
            let shares = if table.has(SMT_SHARES) { smt_shares(&table)? } else { Vec::new() };
            for (known, given) in facts.core.iter_mut().zip(given) {
                *known = known.take().or(given);
            }
            facts.own_atomic = facts.own_atomic.take().or(own_atomic);
            if facts.smt_shares.is_empty() {
                facts.smt_shares = shares;
            }
        }
        Ok(())
    }

    /// A number, or `{ value, confidence, source }` with `cycles` instead of a value in ns.
    fn core_fact(&self, table: &Keys, key: &str, clock_ghz: f64) -> Result<Fact<f64>, DescriptionError> {
        if !table.is_table(key) {
            return table.required_number(key).map(|value| self.own(value));
        }
        let Some(table) = table.below(key)? else { return Err(table.missing(key)) };
        table.only(&["value", "cycles", "confidence", "source"])?;
        let value = match table.number("cycles")?.filter(|_| key.ends_with("_ns")) {
            Some(cycles) => cycles / clock_ghz,
            None => table.required_number("value")?,
        };
        let source = table.text("source")?.unwrap_or_else(|| self.source.clone());
        Ok(Fact { value, confidence: confidence(&table)?, source })
    }

    fn own(&self, value: f64) -> Fact<f64> {
        Fact { value, confidence: self.confidence, source: self.source.clone() }
    }

    /// A number of the file, or of its `estimate` table.
    fn fact(&self, key: &str) -> Result<Option<Fact<f64>>, DescriptionError> {
        if let Some(value) = self.keys.number(key)? {
            return Ok(Some(self.own(value)));
        }
        let estimate = self.estimates.as_ref().map(|keys| keys.number(key)).transpose()?.flatten();
        Ok(estimate.map(|value| Fact::estimate(value, "processor documentation")))
    }

    /// A table of cycle counts, with the confidence and source of its values: the file's own, its
    /// estimate, or borrowed from another machine.
    fn cycle_table(&self, key: &str) -> Result<Option<CycleTable>, DescriptionError> {
        let (most_hops, keep) = (self.most_hops, 1 + self.most_hops);
        if let Some(keys) = self.keys.below(key)? {
            let (confidence, source) = (self.confidence, self.source.clone());
            return Ok(Some(CycleTable { keys, confidence, source, length: 1 + most_hops, keep }));
        }
        let estimates = self.estimates.as_ref().map(|keys| keys.below(key)).transpose()?.flatten();
        if let Some(keys) = estimates {
            let (confidence, source) = (Confidence::Estimate, "processor documentation".to_owned());
            return Ok(Some(CycleTable { keys, confidence, source, length: 1 + most_hops, keep }));
        }
        let borrowed = self.borrowed_keys.as_ref().map(|keys| keys.below(key)).transpose()?.flatten();
        Ok(borrowed.zip(self.borrowed.clone()).map(|(keys, (confidence, source))| {
            // The lender may have more hops than this machine.
            CycleTable { keys, confidence, source, length: 1 + LENDER_HOPS, keep }
        }))
    }

    fn caches(&self, shape: &Shape) -> Result<Caches, DescriptionError> {
        const KIBIBYTE: f64 = 1024.0;
        let bytes = |key: &str| Ok(self.keys.number(key)?.map(|size| (size * KIBIBYTE) as u64));
        let cycles = self.cycle_table("load_to_use_cycles")?;
        let CycleTable { keys: table, confidence, source, .. } =
            cycles.ok_or_else(|| self.keys.missing("load_to_use_cycles"))?;
        table.only(&["l1", "l2", "l3", "memory"])?;
        let fact = |value| Fact { value, confidence, source: source.clone() };
        let l3_bytes = bytes(shape.l3.key())?;
        let l3_cycles = table.number("l3")?.map(fact);
        if l3_bytes.is_some() && l3_cycles.is_none() {
            return Err(table.missing("l3"));
        }
        Ok(Caches {
            l1_bytes: bytes("l1d")?.ok_or_else(|| self.keys.missing("l1d"))?,
            l2_bytes: bytes("l2")?.ok_or_else(|| self.keys.missing("l2"))?,
            l3_bytes,
            l1_cycles: fact(table.required_number("l1")?),
            l2_cycles: fact(table.required_number("l2")?),
            l3_cycles: l3_cycles.filter(|_| l3_bytes.is_some()),
        })
    }

    fn network(&self) -> Result<Option<Network>, DescriptionError> {
        let Some(one_way_us) = self.keys.number("network_one_way_us")? else { return Ok(None) };
        let gbps = self.keys.number("network_gbps")?.map(|value| self.own(value));
        let one_way_us = Fact::estimate(one_way_us, "small message, kernel TCP of that time");
        let header_bytes = self.fact("network_header_bytes")?.unwrap_or_else(Network::header_by_rule);
        let packet_bytes = self.fact("network_packet_bytes")?.unwrap_or_else(Network::packet_by_rule);
        Ok(Some(Network { one_way_us, gbps, header_bytes, packet_bytes }))
    }

    /// `KEY` as a matrix, or `KEY_from_node_0`.
    fn node_values(&self, key: &str, sockets: usize) -> Result<Option<NodeValues>, DescriptionError> {
        if let Some(values) = self.keys.matrix(key, sockets)? {
            let confidence = vec![vec![self.confidence; sockets]; sockets];
            return Ok(Some(NodeValues::Full(FactMatrix {
                values,
                confidence,
                source: self.source.clone(),
            })));
        }
        let row = self.keys.numbers(&format!("{key}_from_node_0"), sockets)?;
        Ok(row.map(|row| NodeValues::FromFirst(row, self.confidence, self.source.clone())))
    }

    fn memory_ns(&self, clock_ghz: f64, sockets: usize) -> Result<NodeValues, DescriptionError> {
        if self.keys.is_table("memory_ns") {
            let table = self.keys.below("memory_ns")?.expect("just seen");
            table.only(&["local", "one_hop", "other_socket"])?;
            let local = table.required_number("local")?;
            let mut by_hops = vec![self.own(local)];
            let remote = table.number("one_hop")?.or(table.number("other_socket")?);
            if self.most_hops > 0 {
                let remote = remote.ok_or_else(|| table.missing("one_hop"))?;
                by_hops.push(self.own(remote));
                let further = (2..=self.most_hops).map(|hops| local + hops as f64 * (remote - local));
                by_hops.extend(further.map(|value| Fact::estimate(value, "rule: every hop adds the same")));
            }
            return Ok(NodeValues::ByHops(by_hops));
        }
        if let Some(values) = self.node_values("memory_ns", sockets)? {
            return Ok(values);
        }
        let memory = self.cycle_table("load_cycles")?.map(|table| table.by_hops("memory", clock_ghz));
        let values = memory.transpose()?.flatten();
        values.map(NodeValues::ByHops).ok_or_else(|| self.keys.missing("memory_ns"))
    }

    fn transfers(&self, key: &str, clock_ghz: f64) -> Result<Transfers, DescriptionError> {
        let Some(table) = self.cycle_table(key)? else { return Ok(Transfers::default()) };
        table.keys.only(&["modified", "exclusive", "shared", "memory"])?;
        let read = |state: &str| {
            let by_hops = table.by_hops(state, clock_ghz)?;
            Ok(by_hops.map(|by_hops| Transfer { same_domain: None, by_hops }))
        };
        Ok(Transfers { modified: read("modified")?, exclusive: read("exclusive")?, shared: read("shared")? })
    }

    /// `dirty_line_transfer_ns`: a table, or a matrix over sockets whose diagonal is the same
    /// socket.
    fn dirty_line(&self, facts: &mut Facts) -> Result<(), DescriptionError> {
        let key = "dirty_line_transfer_ns";
        if self.keys.has(key) && !self.keys.is_table(key) {
            let sockets = facts.shape.sockets;
            let values = self.keys.matrix(key, sockets)?.expect("just seen");
            let confidence = vec![vec![self.confidence; sockets]; sockets];
            facts.load.modified = None;
            facts.dirty_line = Some(FactMatrix { values, confidence, source: self.source.clone() });
            return Ok(());
        }
        let Some(table) = self.keys.below(key)? else { return Ok(()) };
        table.only(&["same_complex", "same_socket", "one_hop", "other_socket"])?;
        let mut by_hops = vec![self.own(table.required_number("same_socket")?)];
        if self.most_hops > 0 {
            let remote = table.number("one_hop")?.or(table.number("other_socket")?);
            by_hops.push(self.own(remote.ok_or_else(|| table.missing("one_hop"))?));
        }
        if by_hops.len() <= self.most_hops {
            return Err(self.keys.invalid(key, "a table for one hop", "a matrix over all sockets"));
        }
        let same_domain = table.number("same_complex")?.map(|value| self.own(value));
        facts.load.modified = Some(Transfer { same_domain, by_hops });
        Ok(())
    }
}

/// A table of cycle counts.
struct CycleTable {
    keys: Keys,
    confidence: Confidence,
    source: String,
    /// Entries of a list by hops: same socket, one hop, and so on.
    length: usize,
    /// Number of these entries that this machine needs.
    keep: usize,
}

impl CycleTable {
    /// Cycle counts [same socket, one hop, ...] in ns.
    fn by_hops(&self, key: &str, clock_ghz: f64) -> Result<Option<Vec<Fact<f64>>>, DescriptionError> {
        let Some(cycles) = self.keys.numbers(key, self.length)? else { return Ok(None) };
        let fact = |cycles: f64| Fact {
            value: cycles / clock_ghz,
            confidence: self.confidence,
            source: self.source.clone(),
        };
        Ok(Some(cycles.into_iter().take(self.keep).map(fact).collect()))
    }
}

const OWN_ATOMIC: &str = "own_atomic_ns";
const SMT_SHARES: &str = "smt_shares";
const TLB: &str = "tlb";
/// Largest number of siblings with a share.
const SIBLINGS_MAX: usize = 64;

/// `[{ siblings, share, confidence, source }, ...]`, ascending, from two siblings on.
fn smt_shares(table: &Keys) -> Result<Vec<SmtShare>, DescriptionError> {
    let mut shares: Vec<SmtShare> = Vec::new();
    for keys in table.tables(SMT_SHARES)? {
        keys.only(&["siblings", "share", "confidence", "source"])?;
        let siblings = keys.required_count("siblings")?;
        let least = shares.last().map_or(1, |known| known.siblings) + 1;
        if !(least..=SIBLINGS_MAX).contains(&siblings) {
            return Err(keys.invalid(
                "siblings",
                siblings,
                &format!("a number from {least} to {SIBLINGS_MAX}"),
            ));
        }
        let (value, source) = (keys.required_number("share")?, keys.text("source")?.unwrap_or_default());
        shares.push(SmtShare { siblings, share: Fact { value, confidence: confidence(&keys)?, source } });
    }
    Ok(shares)
}

/// Hops of octo-socket, the machine whose cycle counts others borrow.
const LENDER_HOPS: usize = 2;
