//! Rows as COPY TO writes them.

use colibri_types::{Datum, Env, Result, Type, binary_io, cast, client_values, pulse, text_io, wire::Format};

use super::{CopyColumn, CopyFormat, CopyOptions, Header};

/// Bytes of a field that are written between two polls; see [`pulse`].
const BYTES_AT_ONCE: usize = 8 << 10;

/// The header of a binary file: a signature that shows damage, no flags, no extension.
pub(super) const BINARY_SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// COPY TO at work: appends to the caller's buffer.
pub(crate) struct CopyOut {
    options: CopyOptions,
    columns: Vec<CopyColumn>,
    text: String,
}

impl CopyOut {
    pub(crate) fn new(options: CopyOptions, columns: Vec<CopyColumn>) -> Self {
        Self { options, columns, text: String::new() }
    }

    /// Calls something with the type of each column, which it may change.
    pub(crate) fn for_each_type(&mut self, change: impl FnMut(&mut Type)) {
        self.columns.iter_mut().map(|column| &mut column.ty.ty).for_each(change);
    }

    /// Writes the header.
    ///
    /// # Errors
    /// A name has a character that the file's encoding lacks.
    pub(crate) fn start(&self, out: &mut Vec<u8>) -> Result<()> {
        let from = out.len();
        match self.options.format {
            CopyFormat::Binary => {
                out.extend_from_slice(BINARY_SIGNATURE);
                out.extend_from_slice(&[0; 8]);
            }
            _ if self.options.header == Header::None => {}
            format => {
                for (at, column) in self.columns.iter().enumerate() {
                    if at > 0 {
                        out.push(self.options.delimiter);
                    }
                    match format {
                        CopyFormat::Csv => self.write_csv(&column.name, false, out),
                        _ => self.write_text(&column.name, out),
                    }
                }
                out.push(b'\n');
                self.encode(from, out)?;
            }
        }
        Ok(())
    }

    /// A row. Ends early if the statement was cancelled: see [`pulse::note`].
    ///
    /// # Errors
    /// A text has a character that the file's encoding lacks.
    pub(crate) fn write_row(&mut self, row: &[Datum], env: &Env, out: &mut Vec<u8>) -> Result<()> {
        if self.options.format == CopyFormat::Binary {
            return self.write_binary(row, out);
        }
        let from = out.len();
        let mut text = std::mem::take(&mut self.text);
        for (at, (column, value)) in self.columns.iter().zip(row).enumerate() {
            if at > 0 {
                out.push(self.options.delimiter);
            }
            text.clear();
            match value {
                Datum::Null => {
                    out.extend_from_slice(self.options.null.as_bytes());
                    continue;
                }
                _ if cast::is_padded(column.ty.ty) => {
                    text_io::write(column.ty.ty, &cast::pad_char(value, column.ty.modifier), env, &mut text);
                }
                _ => text_io::write(column.ty.ty, value, env, &mut text),
            }
            match self.options.format {
                CopyFormat::Csv => {
                    let force = self.options.force_quote.get(at).copied().unwrap_or(false);
                    self.write_csv(&text, force, out);
                }
                _ => self.write_text(&text, out),
            }
        }
        out.push(b'\n');
        self.text = text;
        self.encode(from, out)
    }

    /// Puts the text from a place on into the file's encoding.
    fn encode(&self, from: usize, out: &mut Vec<u8>) -> Result<()> {
        if self.options.encoding.is_as_here() || out[from..].is_ascii() {
            return Ok(());
        }
        // Where a cancelled statement has ended early, what there is may be no text.
        let text = String::from_utf8_lossy(&out[from..]);
        let encoded = self.options.encoding.encode(&text)?.into_owned();
        out.truncate(from);
        out.extend_from_slice(&encoded);
        Ok(())
    }

    /// Writes the trailer.
    pub(crate) fn finish(&self, out: &mut Vec<u8>) {
        if self.options.format == CopyFormat::Binary {
            out.extend_from_slice(&(-1i16).to_be_bytes());
        }
    }

    fn write_text(&self, text: &str, out: &mut Vec<u8>) {
        for (at, byte) in text.bytes().enumerate() {
            if at % BYTES_AT_ONCE == BYTES_AT_ONCE - 1 && pulse::note(BYTES_AT_ONCE / 4) {
                return;
            }
            let letter = match byte {
                b'\x08' => b'b',
                b'\x0c' => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                b'\x0b' => b'v',
                b'\\' => b'\\',
                byte if byte == self.options.delimiter => byte,
                byte => {
                    out.push(byte);
                    continue;
                }
            };
            out.extend_from_slice(&[b'\\', letter]);
        }
    }

    fn write_csv(&self, text: &str, force: bool, out: &mut Vec<u8>) {
        let CopyOptions { delimiter, quote, escape, null, .. } = &self.options;
        let is_special = |byte: u8| byte == *delimiter || byte == *quote || byte == b'\n' || byte == b'\r';
        // Alone on its line this would be the end of the file.
        let is_end = self.columns.len() == 1 && text == "\\.";
        if !(force || text == null || is_end || text.bytes().any(is_special)) {
            out.extend_from_slice(text.as_bytes());
            return;
        }
        out.push(*quote);
        for (at, byte) in text.bytes().enumerate() {
            if at % BYTES_AT_ONCE == BYTES_AT_ONCE - 1 && pulse::note(BYTES_AT_ONCE / 4) {
                return;
            }
            if byte == *quote || byte == *escape {
                out.push(*escape);
            }
            out.push(byte);
        }
        out.push(*quote);
    }

    fn write_binary(&self, row: &[Datum], out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&(self.columns.len() as i16).to_be_bytes());
        for (column, value) in self.columns.iter().zip(row) {
            let start = out.len();
            out.extend_from_slice(&(-1i32).to_be_bytes());
            if !value.is_null() {
                binary_io::write_binary(column.ty.ty, column.ty.modifier, value, out);
                let encoding = self.options.encoding;
                if !encoding.is_as_here()
                    && let Some(encoded) =
                        client_values::encode_value(encoding, column.ty.ty, Format::Binary, &out[start + 4..])?
                {
                    out.truncate(start + 4);
                    out.extend_from_slice(&encoded);
                }
                let length = (out.len() - start - 4) as i32;
                out[start..start + 4].copy_from_slice(&length.to_be_bytes());
            }
        }
        Ok(())
    }
}
