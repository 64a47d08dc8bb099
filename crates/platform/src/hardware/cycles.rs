//! A known number of cycles.

/// Between two registers: additions of small constants cost nothing on some processors.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) fn additions(count: u64) -> bool {
    // Goes from one chain into the next, or they would overlap.
    let mut sum = count;
    for _ in 0..count {
        // SAFETY: adds a register to a register, and touches neither memory nor the stack.
        unsafe {
            core::arch::asm!(
                ".rept 100",
                "add {sum}, {term}",
                ".endr",
                sum = inout(reg) sum,
                term = in(reg) 3u64,
                options(nomem, nostack)
            );
        }
    }
    std::hint::black_box(sum);
    true
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(super) fn additions(_: u64) -> bool {
    false
}
