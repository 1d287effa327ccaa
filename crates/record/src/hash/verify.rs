//! Verification: checks that each record exists once, in its bucket; that each bucket is where the header states; and
//! that each page has exactly one use.
//!
//! No session changes the database during the verification. The checks of a page, of long values and of free pages are
//! those of the B-tree (../btree/verify.rs).

use std::collections::HashSet;

use crate::btree::verify::{Use, Verified, Verifier, FINDINGS_MAX};
use crate::database::geometry::{bucket_of, extent_of, low_bits, parent_of};
use crate::hash::page::{BucketPage, HashHeader, HEADER_PAGE};
use crate::key_hash::hash_of;
use crate::locking::Access;
use crate::Result;

/// The mark of a bucket: the number of its hash bits if it gives records, `None` if it takes records.
type ListBits = Option<u32>;

/// Verifies a hash file.
///
/// # Errors
/// A page cannot be read for a reason other than damage. Damage is no error, but a finding in the result.
pub fn verify(access: &Access<'_>) -> Result<Verified> {
    access.check_hash()?;
    let mut verifier = Verifier::new(access);
    let Some(copied) = verifier.read(HEADER_PAGE)? else { return Ok(verifier.into_result()) };
    verifier.claim(HEADER_PAGE, Use::Tree);
    let Some(header) = HashHeader::of(&copied.bytes) else {
        verifier.report(HEADER_PAGE, "it is not the header of a hash file");
        return Ok(verifier.into_result());
    };
    let (buckets, page_count) = (header.buckets.get(), access.pages.meta()?.page_count.get());
    if buckets > page_count {
        let stated = format!("it states that there are {buckets} buckets, but the file has only {page_count} pages");
        verifier.report(HEADER_PAGE, stated);
        return Ok(verifier.into_result());
    }
    let mut keys = HashSet::new();
    let mut giving: Vec<(u32, ListBits)> = Vec::new();
    for bucket in 0..buckets {
        if verifier.result_mut().findings.len() >= FINDINGS_MAX {
            return Ok(verifier.into_result());
        }
        let (index, at, count) = extent_of(bucket);
        let first = header.extents[index].get();
        if first == 0 {
            verifier.report(HEADER_PAGE, format!("it has no page for bucket {bucket}"));
            continue;
        }
        if at == 0 {
            // Pages of the last extent that have no bucket yet.
            let unused = (0..count).filter(|ahead| bucket.saturating_add(*ahead) >= buckets);
            for ahead in unused {
                verifier.claim(first.saturating_add(ahead), Use::Ahead);
            }
        }
        if let Some(mark) = one_bucket(&mut verifier, (bucket, buckets), first.saturating_add(at), &mut keys)? {
            giving.push((bucket, mark));
        }
    }
    marks(&mut verifier, &giving);
    verifier.free_list()?;
    verifier.lost_pages()?;
    Ok(verifier.into_result())
}

/// Checks one bucket. Returns its mark, or `None` if it has no mark.
fn one_bucket(
    verifier: &mut Verifier<'_, '_>,
    (bucket, buckets): (u32, u32),
    first: u32,
    keys: &mut HashSet<Vec<u8>>,
) -> Result<Option<ListBits>> {
    let (mut next, mut is_first) = (Some(first), true);
    let mut mark = None;
    while let Some(number) = next {
        let Some(copied) = verifier.read(number)? else { return Ok(mark) };
        if !verifier.claim(number, Use::Tree) {
            return Ok(mark);
        }
        let Some(node) = BucketPage::over(&copied.bytes) else {
            verifier.report(number, format!("it is not a page of a bucket, and bucket {bucket} leads to it"));
            return Ok(mark);
        };
        verifier.result_mut().tree_pages += 1;
        if node.bucket() != bucket || node.is_further() == is_first {
            verifier.report(
                number,
                format!("it states that it belongs to bucket {}, and bucket {bucket} leads to it", node.bucket()),
            );
            return Ok(mark);
        }
        if is_first {
            let own_bits = node.bits();
            let expected = bits_of(bucket, buckets);
            if own_bits != expected {
                verifier.report(
                    number,
                    format!("it uses {own_bits} bits of its keys' hashes, and {expected} are expected"),
                );
            }
            mark = match (node.is_giving(), node.is_taking()) {
                (false, false) => None,
                (true, false) => Some(Some(own_bits)),
                (false, true) => Some(None),
                (true, true) => {
                    verifier.report(number, "it is marked as giving records and as taking records");
                    None
                }
            };
        }
        verifier.page(&copied, &node, &[])?;
        for slot in 0..node.count() {
            let hash = hash_of(node.key(slot));
            let is_on_its_way = !is_first
                && matches!(mark, Some(Some(bits)) if bits > 0 && low_bits(hash, bits) == bucket | 1 << (bits - 1));
            if bucket_of(hash, buckets) != bucket && !is_on_its_way {
                verifier
                    .report(number, format!("the key of slot {slot} belongs to bucket {}", bucket_of(hash, buckets)));
            }
            if !keys.insert(node.key(slot).to_vec()) {
                verifier.report(number, format!("the file has the key of slot {slot} twice"));
            }
        }
        next = node.next();
        is_first = false;
    }
    Ok(mark)
}

/// Returns the number of hash bits of a bucket among `buckets` buckets.
fn bits_of(bucket: u32, buckets: u32) -> u32 {
    let wide = buckets.ilog2();
    let is_split = u64::from(bucket) + (1 << wide) < u64::from(buckets) || bucket >= 1 << wide;
    wide + u32::from(is_split)
}

/// Checks that every giving bucket has a taking bucket, and every taking bucket a giving bucket.
fn marks(verifier: &mut Verifier<'_, '_>, marked: &[(u32, ListBits)]) {
    for &(bucket, mark) in marked {
        let has_other = match mark {
            Some(bits) if bits > 0 => marked.contains(&(bucket | 1 << (bits - 1), None)),
            Some(_) => false,
            None => {
                let (parent, bits) = parent_of(bucket);
                marked.contains(&(parent, Some(bits)))
            }
        };
        if !has_other {
            verifier.report(
                HEADER_PAGE,
                format!("bucket {bucket} is marked for a split, and the other bucket of the split has no mark"),
            );
        }
    }
}
