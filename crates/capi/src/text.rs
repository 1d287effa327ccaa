//! `tp_text`: a text file whose records are kept in a list.
#![allow(unsafe_code)]

use std::ffi::c_int;

use libtp::{TextFile, TextForm};

use crate::answer::{c_call, Trouble};
use crate::arguments::{Out, Text};
use crate::handles::{kind, Handle, Pinned};
use crate::list::ListDatabase;

/// The type that C calls `tp_text`.
pub struct ListText {
    text: TextFile,
    /// Keeps the list open.
    _list: Pinned<ListDatabase>,
}

kind!(ListText = 13);

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_text_open(
    list: Handle<ListDatabase>,
    path: Text,
    record_size: usize,
    byte: c_int,
    text: Out<Handle<ListText>>,
) -> c_int {
    c_call("tp_text_open", || {
        text.answer("the text file", Handle::NULL, || {
            let (list, path) = (list.pin()?, path.path("the path")?);
            let byte = u8::try_from(byte)
                .map_err(|_| Trouble::misuse(format!("{byte} is not a byte: give a number from 0 to 255")))?;
            let form = match record_size {
                0 => TextForm::Delimited(byte),
                bytes => TextForm::Fixed { bytes, pad: byte },
            };
            let text = TextFile::open(&list.env.env, &list.list, path, form)?;
            Handle::of(ListText { text, _list: list })
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_text_sync(text: Handle<ListText>, is_written: Out<c_int>) -> c_int {
    c_call("tp_text_sync", || {
        is_written.set(0);
        is_written.set(c_int::from(text.pin()?.text.sync()?));
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_text_close(text: Handle<ListText>) -> c_int {
    c_call("tp_text_close", || match text.is_null() {
        true => Ok(()),
        false => {
            // The file is closed first; the pin of the list is dropped at the end of this block.
            let ListText { text, _list } = text.remove("let no other thread be in a call with it")?;
            Ok(text.close()?)
        }
    })
}
