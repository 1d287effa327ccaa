//! `tp_backup`, `tp_backup_check` and `tp_restore`: copies of an environment in use, and environments made from copies.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};
use std::time::{Duration, UNIX_EPOCH};

use libtp::{Backup, Env, RestorePoint};

use crate::answer::{c_call, Outcome, Trouble};
use crate::arguments::{Out, Text};
use crate::environment::{environment, Environment};
use crate::handles::Handle;
use crate::load::{progress_callback, Watch};
use crate::log_types::with_log_types;

/// The flag as in `libtp.h`.
const TP_BACKUP_MORE: c_uint = 1;

/// `tp_backed_up`.
#[repr(C)]
pub struct BackedUp {
    earliest: u64,
    end: u64,
    files: u64,
    file_bytes: u64,
    log_bytes: u64,
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_backup(
    env: Handle<Environment>,
    to: Text,
    flags: c_uint,
    watch: Option<Watch>,
    argument: *mut c_void,
    done: Out<BackedUp>,
) -> c_int {
    c_call("tp_backup", || {
        let (env, to) = (environment(env)?, to.path("the directory")?);
        let mut progress_callback = progress_callback(watch, argument);
        let backed_up = match flags {
            0 => env.env.backup(to, &mut progress_callback)?,
            TP_BACKUP_MORE => env.env.backup_more(to, &mut progress_callback)?,
            _ => return Err(Trouble::misuse(format!("the flags have bits that mean nothing: {flags:#x}"))),
        };
        let libtp::BackedUp { earliest, end, files, file_bytes, log_bytes, .. } = backed_up;
        done.set(BackedUp { earliest, end, files, file_bytes, log_bytes });
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_backup_check(
    backup: Text,
    watch: Option<Watch>,
    argument: *mut c_void,
    found: Out<BackedUp>,
) -> c_int {
    c_call("tp_backup_check", || {
        let checked = Backup::open(backup.path("the backup")?)?.check(&mut progress_callback(watch, argument))?;
        let libtp::Checked { earliest, end, files, file_bytes, log_bytes } = checked;
        found.set(BackedUp { earliest, end, files, file_bytes, log_bytes });
        Ok(())
    })
}

/// Returns the state to restore. `kind` is TP_UNTIL_END, TP_UNTIL_LSN or TP_UNTIL_TIME of `libtp.h`.
fn until(kind: c_int, value: u64) -> Outcome<RestorePoint> {
    match kind {
        0 => Ok(RestorePoint::End),
        1 => Ok(RestorePoint::Lsn(value)),
        2 => Ok(RestorePoint::Time(UNIX_EPOCH + Duration::from_micros(value))),
        _ => Err(Trouble::misuse(format!(
            "{kind} is not a state to restore: give TP_UNTIL_END, TP_UNTIL_LSN or TP_UNTIL_TIME"
        ))),
    }
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_restore(
    backup: Text,
    to: Text,
    kind: c_int,
    value: u64,
    watch: Option<Watch>,
    argument: *mut c_void,
    end: Out<u64>,
) -> c_int {
    c_call("tp_restore", || {
        let (backup, to) = (Backup::open(backup.path("the backup")?)?, to.path("the directory")?);
        let builder = with_log_types(Env::builder());
        let restored =
            backup.restore_with(&builder, to, until(kind, value)?, &mut progress_callback(watch, argument))?;
        end.set(restored.end);
        Ok(())
    })
}
