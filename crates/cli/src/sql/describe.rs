//! `\d` and its kin: what is in the catalogue.

use std::io::Write;

use colibri::sql::engine::CompactString;
use colibri::sql::engine::catalog::{Catalog, Identity, Index, Relation, Sequence, Table, View, parse_name};

use super::shell::{Place, Ran, Shell};
use super::table::{self, Cell, Heading};

/// What is printed below a table of columns.
type Section = (&'static str, Vec<String>);

fn headings(names: &[&str]) -> Vec<Heading> {
    names.iter().map(|name| Heading::left(name)).collect()
}

fn cells<const N: usize>(row: [String; N]) -> Vec<Cell> {
    row.into_iter().map(Some).collect()
}

impl Shell {
    /// Runs one of the commands.
    pub(crate) fn describe(&mut self, word: &str, rest: &str, place: &Place<'_>, is_interactive: bool) -> Ran {
        let catalog = match self.connection.catalog() {
            Ok(catalog) => catalog,
            Err(error) => return self.failed(&error, "", place, is_interactive),
        };
        let path: Vec<CompactString> = self.path();
        match (word, rest) {
            ("l", _) => {
                let row = cells([self.name().to_owned(), "UTF8".to_owned(), "C".to_owned(), self.directory.clone()]);
                let headings = headings(&["Name", "Encoding", "Collate", "Directory"]);
                self.list(Some("List of databases"), &headings, &[row])
            }
            ("dn", _) => {
                let mut names: Vec<String> = catalog.schemas().map(|schema| schema.name.to_string()).collect();
                names.sort();
                let rows: Vec<_> = names.into_iter().map(|name| cells([name])).collect();
                self.list(Some("List of schemas"), &headings(&["Name"]), &rows)
            }
            ("d", name) if !name.is_empty() => self.describe_one(&catalog, &path, name, place, is_interactive),
            (word, pattern) => self.list_relations(&catalog, &path, word, pattern, place, is_interactive),
        }
    }

    /// The schemas that names are looked up in.
    fn path(&mut self) -> Vec<CompactString> {
        let setting = self.connection.setting("search_path").unwrap_or_default();
        setting.split(',').map(|name| CompactString::new(name.trim().trim_matches('"'))).collect()
    }

    fn list(&mut self, title: Option<&str>, headings: &[Heading], rows: &[Vec<Cell>]) -> Ran {
        table::print(title, headings, rows, &mut self.out)?;
        if title.is_some() {
            writeln!(self.out, "{}", table::count_line(rows.len()))?;
        }
        Ok(writeln!(self.out)?)
    }

    fn list_relations(
        &mut self,
        catalog: &Catalog,
        path: &[CompactString],
        word: &str,
        pattern: &str,
        place: &Place<'_>,
        is_interactive: bool,
    ) -> Ran {
        let wanted = |kind: &str| match word {
            "dt" => kind == "table",
            "di" => kind == "index",
            "dv" => kind == "view",
            "ds" => kind == "sequence",
            _ => kind != "index",
        };
        let mut rows: Vec<[String; 4]> = Vec::new();
        for schema in catalog.schemas() {
            // Without a pattern, what a name alone finds.
            if pattern.is_empty() && !path.contains(&schema.name) {
                continue;
            }
            for (name, relation) in catalog.relations(&schema.name) {
                let full = format!("{}.{name}", schema.name);
                let matches = pattern.is_empty() || is_like(name, pattern) || is_like(&full, pattern);
                if wanted(relation.kind()) && matches {
                    let of = match relation {
                        Relation::Index(id, _) | Relation::PrimaryKey(id) => {
                            catalog.table(*id).map_or(String::new(), |table| table.name.to_string())
                        }
                        _ => String::new(),
                    };
                    rows.push([schema.name.to_string(), name.to_string(), relation.kind().to_owned(), of]);
                }
            }
        }
        rows.sort();
        if rows.is_empty() {
            let message = match pattern {
                "" => "Did not find any relations.".to_owned(),
                pattern => format!("Did not find any relation named \"{pattern}\"."),
            };
            // That there is nothing is no error, unless it was asked for by name.
            if pattern.is_empty() {
                return Ok(writeln!(self.out, "{message}")?);
            }
            return self.refused(&message, place, is_interactive);
        }
        if word == "di" {
            let rows: Vec<_> = rows.into_iter().map(cells).collect();
            return self.list(Some("List of relations"), &headings(&["Schema", "Name", "Type", "Table"]), &rows);
        }
        let rows: Vec<_> = rows.into_iter().map(|[schema, name, kind, _]| cells([schema, name, kind])).collect();
        self.list(Some("List of relations"), &headings(&["Schema", "Name", "Type"]), &rows)
    }

    fn describe_one(
        &mut self,
        catalog: &Catalog,
        path: &[CompactString],
        name: &str,
        place: &Place<'_>,
        is_interactive: bool,
    ) -> Ran {
        let found = parse_name(name).and_then(|name| catalog.find(&name, path).cloned());
        match found {
            Some(Relation::Table(table)) => self.describe_table(catalog, &table),
            Some(Relation::View(view)) => self.describe_view(&view),
            Some(Relation::Sequence(sequence)) => self.describe_sequence(catalog, &sequence),
            Some(Relation::Index(id, index)) => {
                let Some(table) = catalog.table(id) else { return Ok(()) };
                let columns: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
                let kind = if index.unique { "unique, btree" } else { "btree" };
                self.describe_index(table, &index.name, &columns, &format!("{kind}, for table \"{}\"", full(table)))
            }
            Some(Relation::PrimaryKey(id)) => {
                let Some(table) = catalog.table(id) else { return Ok(()) };
                let Some(key) = &table.primary_key else { return Ok(()) };
                let note = format!("primary key, btree, for table \"{}\", which is clustered on it", full(table));
                self.describe_index(table, &key.name, &key.columns, &note)
            }
            None => {
                let message = format!("Did not find any relation named \"{name}\".");
                self.refused(&message, place, is_interactive)
            }
        }
    }

    fn describe_index(&mut self, table: &Table, name: &str, columns: &[usize], note: &str) -> Ran {
        let rows: Vec<_> = columns
            .iter()
            .filter_map(|&place| table.columns.get(place))
            .map(|column| cells([column.name.to_string(), column.ty.to_string()]))
            .collect();
        let title = format!("Index \"{}.{name}\"", table.schema);
        table::print(Some(&title), &headings(&["Column", "Type"]), &rows, &mut self.out)?;
        writeln!(self.out, "{note}\n")?;
        Ok(())
    }

    fn describe_view(&mut self, view: &View) -> Ran {
        let name = format!("{}.{}", quoted(&view.schema), quoted(&view.name));
        let prepared = self.connection.prepare(&format!("SELECT * FROM {name}")).ok();
        let columns = prepared.as_ref().map(|prepared| prepared.columns()).unwrap_or_default();
        let rows: Vec<_> =
            columns.iter().map(|column| cells([column.name().to_owned(), column.type_name().to_owned()])).collect();
        let title = format!("View \"{}.{}\"", view.schema, view.name);
        table::print(Some(&title), &headings(&["Column", "Type"]), &rows, &mut self.out)?;
        writeln!(self.out, "View definition:\n {};\n", view.query)?;
        Ok(())
    }

    fn describe_sequence(&mut self, catalog: &Catalog, sequence: &Sequence) -> Ran {
        let row = cells([
            sequence.ty().to_string(),
            sequence.start.to_string(),
            sequence.min.to_string(),
            sequence.max.to_string(),
            sequence.increment.to_string(),
            if sequence.cycle { "yes" } else { "no" }.to_owned(),
        ]);
        let title = format!("Sequence \"{}.{}\"", sequence.schema, sequence.name);
        let headings = headings(&["Type", "Start", "Minimum", "Maximum", "Increment", "Cycles?"]);
        table::print(Some(&title), &headings, &[row], &mut self.out)?;
        let owner = sequence.owned_by.and_then(|(id, place)| Some((catalog.table(id)?, place)));
        if let Some((table, place)) = owner
            && let Some(column) = table.columns.get(place)
        {
            writeln!(self.out, "Owned by: {}.{}", full(table), column.name)?;
        }
        writeln!(self.out)?;
        Ok(())
    }

    fn describe_table(&mut self, catalog: &Catalog, table: &Table) -> Ran {
        let rows: Vec<_> = table
            .live_columns()
            .map(|(_, column)| {
                let default = match column.identity {
                    Some(Identity::Always) => "generated always as identity".to_owned(),
                    Some(Identity::ByDefault) => "generated by default as identity".to_owned(),
                    None => match &column.generated {
                        Some(generated) => format!("generated always as ({generated}) stored"),
                        None => column.default.clone().unwrap_or_default(),
                    },
                };
                let nullable = if column.not_null { "not null" } else { "" }.to_owned();
                cells([column.name.to_string(), column.ty.to_string(), nullable, default])
            })
            .collect();
        let title = format!("Table \"{}\"", full(table));
        table::print(Some(&title), &headings(&["Column", "Type", "Nullable", "Default"]), &rows, &mut self.out)?;
        for (name, lines) in sections(catalog, table) {
            if !lines.is_empty() {
                writeln!(self.out, "{name}:")?;
                for line in lines {
                    writeln!(self.out, "    {line}")?;
                }
            }
        }
        writeln!(self.out)?;
        Ok(())
    }
}

fn full(table: &Table) -> String {
    format!("{}.{}", table.schema, table.name)
}

fn sections(catalog: &Catalog, table: &Table) -> [Section; 4] {
    let key = table
        .primary_key
        .iter()
        .map(|key| format!("\"{}\" PRIMARY KEY, btree ({})", key.name, names(table, &key.columns)));
    let indexes = table.indexes.iter().map(|index| index_line(table, index));
    let valid = |not_valid: bool| if not_valid { " NOT VALID" } else { "" };
    let checks = table
        .checks
        .iter()
        .map(|check| format!("\"{}\" CHECK ({}){}", check.name, check.condition, valid(check.not_valid)));
    let reference = |source: &Table, key: &colibri::sql::engine::catalog::ForeignKey| {
        let target = catalog.table(key.target);
        let (name, columns) = match target {
            Some(target) => (target.name.to_string(), names(target, &key.target_columns)),
            None => (String::new(), String::new()),
        };
        let mut line = format!(
            "CONSTRAINT \"{}\" FOREIGN KEY ({}) REFERENCES {}({columns})",
            key.name,
            names(source, &key.columns),
            quoted(&name),
        );
        for (action, when) in [(key.on_update, "UPDATE"), (key.on_delete, "DELETE")] {
            let words = action_words(&format!("{action:?}"));
            if words != "NO ACTION" {
                line.push_str(&format!(" ON {when} {words}"));
            }
        }
        if !key.delete_columns.is_empty() {
            line.push_str(&format!(" ({})", names(source, &key.delete_columns)));
        }
        line.push_str(valid(key.not_valid));
        line
    };
    let keys = table.foreign_keys.iter().map(|key| reference(table, key)["CONSTRAINT ".len()..].to_owned());
    let mut referring: Vec<String> = Vec::new();
    for source in catalog.referring_to(table.id) {
        let keys = source.foreign_keys.iter().filter(|key| key.target == table.id);
        referring.extend(keys.map(|key| format!("TABLE \"{}\" {}", source.name, reference(source, key))));
    }
    referring.sort();
    [
        ("Indexes", key.chain(indexes).collect()),
        ("Check constraints", checks.collect()),
        ("Foreign-key constraints", keys.collect()),
        ("Referenced by", referring),
    ]
}

/// `NoAction`, `SetNull { .. }` as SQL says it.
fn action_words(name: &str) -> String {
    let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or(name);
    let mut words = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(character.to_ascii_uppercase());
    }
    words
}

fn index_line(table: &Table, index: &Index) -> String {
    let columns: Vec<String> = index
        .columns
        .iter()
        .enumerate()
        .map(|(place, column)| {
            let mut text = names(table, &[column.column]);
            let class = index.tokens.get(place).map(|class| class.0);
            if let Some(class) = class.filter(|class| !class.is_default) {
                text.push(' ');
                text.push_str(class.name);
            }
            if column.descending {
                text.push_str(" DESC");
            }
            // The default is last for ascending and first for descending columns.
            if column.nulls_first != column.descending {
                text.push_str(if column.nulls_first { " NULLS FIRST" } else { " NULLS LAST" });
            }
            text
        })
        .collect();
    let kind = match (index.constraint, index.unique) {
        (true, false) => " EXCLUDE CONSTRAINT,",
        (true, true) => " UNIQUE CONSTRAINT,",
        (false, true) => " UNIQUE,",
        (false, false) => "",
    };
    let method = index.method.as_deref().unwrap_or("btree");
    format!("\"{}\"{kind} {method} ({})", index.name, columns.join(", "))
}

fn names(table: &Table, places: &[usize]) -> String {
    let names = places.iter().filter_map(|&place| table.columns.get(place)).map(|column| quoted(&column.name));
    names.collect::<Vec<_>>().join(", ")
}

/// An identifier, in quotes if it needs them.
fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// psql's patterns: `*` stands for any characters, `?` for one; letters fold to lower case.
fn is_like(name: &str, pattern: &str) -> bool {
    fn matches(name: &[char], pattern: &[char]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some(('*', rest)) => (0..=name.len()).any(|skip| matches(&name[skip..], rest)),
            Some((&wanted, rest)) => match name.split_first() {
                Some((&first, behind)) => (wanted == '?' || wanted == first) && matches(behind, rest),
                None => false,
            },
        }
    }
    let name: Vec<char> = name.chars().collect();
    let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
    matches(&name, &pattern)
}
