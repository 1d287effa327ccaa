//! `tp_env`: an environment, and the calls on it as a whole.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, CStr};

use libtp::{Env, Keep, Settings};

use crate::answer::{c_call, Outcome, Trouble};
use crate::arguments::{lines, Fill, Out, Text};
use crate::handles::{kind, Handle, Pinned};
use crate::log_types::with_log_types;

/// Flags of `tp_env_open`, as in `libtp.h`.
const TP_NO_CREATE: c_uint = 1;
const TP_KEEP_FILES: c_uint = 2;
const TP_KEEP_REGION: c_uint = 4;

/// The type that C calls `tp_env`. Every transaction, database and other value made in the environment keeps it pinned.
pub struct Environment {
    pub(crate) env: Env,
}

kind!(Environment = 0);

/// Returns the environment of a handle.
pub(crate) fn environment(handle: Handle<Environment>) -> Outcome<Pinned<Environment>> {
    handle.pin()
}

fn open(directory: &Text, settings: &Text, flags: c_uint) -> Outcome<Environment> {
    let directory = directory.path("the directory")?;
    let unknown = flags & !(TP_NO_CREATE | TP_KEEP_FILES | TP_KEEP_REGION);
    if unknown != 0 {
        return Err(Trouble::misuse(format!("the flags have bits that mean nothing: {unknown:#x}")));
    }
    let mut builder = with_log_types(Env::builder()).create(flags & TP_NO_CREATE == 0);
    if let Some(text) = settings.optional("the settings")? {
        builder = builder.settings(Settings::parse(text)?);
    }
    match (flags & TP_KEEP_FILES != 0, flags & TP_KEEP_REGION != 0) {
        (true, true) => return Err(Trouble::misuse("TP_KEEP_FILES and TP_KEEP_REGION exclude each other")),
        (true, false) => builder = builder.keep(Keep::Files),
        (false, true) => builder = builder.keep(Keep::Region),
        (false, false) => {}
    }
    Ok(Environment { env: builder.open(directory)? })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_env_open(directory: Text, settings: Text, flags: c_uint, env: Out<Handle<Environment>>) -> c_int {
    c_call("tp_env_open", || {
        env.answer("the environment", Handle::NULL, || Handle::of(open(&directory, &settings, flags)?))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_env_close(env: Handle<Environment>) -> c_int {
    c_call("tp_env_close", || {
        env.close("end its transactions and close its databases first, and let no other thread be in a call with it")
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_env_databases(env: Handle<Environment>, mut names: Fill) -> c_int {
    c_call("tp_env_databases", || {
        names.needed()?;
        let all = environment(env)?.env.databases()?;
        names.with(&lines(all.iter().map(String::as_str)))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_env_verify(env: Handle<Environment>, name: Text, mut findings: Fill) -> c_int {
    c_call("tp_env_verify", || {
        findings.needed()?;
        let verified = environment(env)?.env.verify(name.needed("the name")?)?;
        let findings_text: Vec<String> =
            verified.findings.iter().map(|finding| format!("page {}: {}", finding.page, finding.what)).collect();
        findings.with(&lines(findings_text.iter().map(String::as_str)))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_env_opened(env: Handle<Environment>, mut json: Fill) -> c_int {
    c_call("tp_env_opened", || {
        json.needed()?;
        json.with(as_json(environment(env)?.env.opened()).as_bytes())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_env_stat(env: Handle<Environment>, mut json: Fill) -> c_int {
    c_call("tp_env_stat", || {
        json.needed()?;
        json.with(as_json(&environment(env)?.env.stats()?).as_bytes())
    })
}

fn as_json(report: &impl serde::Serialize) -> String {
    serde_json::to_string(report).expect("a report has only texts and numbers")
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_env_checkpoint(env: Handle<Environment>) -> c_int {
    c_call("tp_env_checkpoint", || {
        environment(env)?.env.checkpoint()?;
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_env_flush(env: Handle<Environment>) -> c_int {
    c_call("tp_env_flush", || Ok(environment(env)?.env.flush()?))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_env_background_step(env: Handle<Environment>) -> c_int {
    c_call("tp_env_background_step", || Ok(environment(env)?.env.background_step()?))
}

/// The version, with a zero byte after it.
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version contains no zero byte"),
};

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_version() -> *const c_char {
    VERSION.as_ptr()
}
