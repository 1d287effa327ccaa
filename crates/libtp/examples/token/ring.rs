//! A token that goes round among stations: a segment of memory stores the number of the token's holder, and the number
//! of times that the token was passed on.
//!
//! Paper: Rio Vista, section 6. The holder does a piece of work and passes the token on, in one transaction: the work
//! is done if and only if the token was passed on. So there is one token, and each piece is done once and in order.

use libtp::{Env, Recno, Result, Segment};

/// Stations that pass a token round.
pub struct Ring {
    env: Env,
    token: Segment,
    /// The pieces of work with their stations, one record each.
    work: Recno,
    stations: u64,
}

impl Ring {
    /// Opens a ring of `stations` stations, or makes it if it is missing. In a new ring the first station has the
    /// token.
    pub fn open(env: &Env, stations: u64) -> Result<Ring> {
        Ok(Ring { env: env.clone(), token: env.segment("token", 16)?, work: env.recno("work", 16)?, stations })
    }

    /// If the station has the token, does a piece of work and passes the token on. Returns the number of pieces done,
    /// or `None` if the station does not have the token.
    pub fn turn(&self, station: u64) -> Result<Option<u64>> {
        self.env.run(|txn| {
            let mut memory = txn.join(&self.token)?;
            let (holder, count) = (number(&memory.bytes()[..8]), number(&memory.bytes()[8..]));
            if holder != station {
                return Ok(None);
            }
            let token = memory.set_range(0, 16)?;
            token[..8].copy_from_slice(&((station + 1) % self.stations).to_le_bytes());
            token[8..].copy_from_slice(&(count + 1).to_le_bytes());
            let mut piece = count.to_le_bytes().to_vec();
            piece.extend(station.to_le_bytes());
            self.work.append(txn, &piece)?;
            Ok(Some(count + 1))
        })
    }

    /// Returns the number of pieces done, if each was done once, in order, by the station that had the token.
    pub fn check(&self) -> Result<std::result::Result<u64, String>> {
        self.env.run(|txn| {
            let memory = txn.join(&self.token)?;
            let (holder, count) = (number(&memory.bytes()[..8]), number(&memory.bytes()[8..]));
            let mut cursor = self.work.cursor(txn);
            let mut next = 0;
            let mut record = cursor.first()?;
            while let Some((_, piece)) = record {
                if (number(&piece), number(&piece[8..])) != (next, next % self.stations) {
                    return Ok(Err(format!("piece {next} is {piece:?}")));
                }
                next += 1;
                record = cursor.next()?;
            }
            Ok(match (next, holder) == (count, count % self.stations) {
                true => Ok(count),
                false => Err(format!("{next} pieces were done; the token says {count}, and is at station {holder}")),
            })
        })
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}
