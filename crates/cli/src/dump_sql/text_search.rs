//! Dictionaries and configurations of text search that users have made.

use super::Dump;
use crate::failure::Result;

/// The name of a dictionary `d` or a configuration `c`, with its schema.
fn qualified(prefix: &str, of: &str) -> String {
    format!("quote_ident({of}.{prefix}namespace::regnamespace::text) || '.' || quote_ident({of}.{prefix}name::text)")
}

impl Dump<'_> {
    pub(super) fn text_search(&mut self) -> Result<()> {
        let (dictionary, configuration) = (qualified("dict", "d"), qualified("cfg", "c"));
        let rows = self.query(&format!(
            "SELECT {dictionary}, quote_ident(coalesce(t.tmplname::text, 'unaccent')), d.dictinitoption \
             FROM pg_ts_dict d LEFT JOIN pg_ts_template t ON t.oid = d.dicttemplate \
             WHERE d.dictnamespace <> 'pg_catalog'::regnamespace ORDER BY d.oid"
        ))?;
        for row in &rows {
            let (name, template) = (self.text(row, 0)?, self.text(row, 1)?);
            let options = self.maybe(row, 2)?.map(|options| format!(", {options}")).unwrap_or_default();
            writeln!(self.out, "CREATE TEXT SEARCH DICTIONARY {name} (TEMPLATE = {template}{options});")?;
        }
        let rows = self.query(&format!(
            "SELECT c.oid::text, {configuration} FROM pg_ts_config c \
             WHERE c.cfgnamespace <> 'pg_catalog'::regnamespace ORDER BY c.oid"
        ))?;
        for row in &rows {
            let (number, name) = (self.text(row, 0)?, self.text(row, 1)?);
            writeln!(self.out, "CREATE TEXT SEARCH CONFIGURATION {name} (PARSER = pg_catalog.\"default\");")?;
            let mappings = self.query(&format!(
                "SELECT k.alias, string_agg({dictionary}, ', ' ORDER BY m.mapseqno) FROM pg_ts_config_map m \
                 JOIN ts_token_type('default') k ON k.tokid = m.maptokentype JOIN pg_ts_dict d ON d.oid = m.mapdict \
                 WHERE m.mapcfg = {number} GROUP BY k.tokid, k.alias ORDER BY k.tokid"
            ))?;
            for mapping in &mappings {
                let (kind, dictionaries) = (self.text(mapping, 0)?, self.text(mapping, 1)?);
                writeln!(
                    self.out,
                    "ALTER TEXT SEARCH CONFIGURATION {name} ADD MAPPING FOR \"{kind}\" WITH {dictionaries};"
                )?;
            }
        }
        Ok(())
    }
}
