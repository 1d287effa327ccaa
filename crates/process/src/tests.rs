//! Tests of sessions and latches: every region is mapped twice, and worked through both mappings.
