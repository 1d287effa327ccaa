//! What the whole-system tests share: the bank of the workload, its oracle, the report.
#![forbid(unsafe_code)]
