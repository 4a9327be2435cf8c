//! Functions, procedures, operators, aggregates, casts, rules, extended statistics and triggers in a
//! dump.
//!
//! A function that takes or gives rows of a table comes behind the tables, all others in front of
//! them: defaults and conditions may call them. Bodies are not read for mistakes when they are
//! loaded. Rules and triggers come last, so that none is for the rows of the dump.

use super::Dump;
use crate::failure::Result;

/// The first number of the types of relations' rows.
const ROW_TYPES: i64 = 1 << 29;

impl Dump<'_> {
    /// Functions of rows of relations, or all others.
    pub(super) fn routines(&mut self, of_rows: bool) -> Result<()> {
        let rows = self.query(
            "SELECT pg_get_functiondef(p.oid), p.prorettype::int8::text || ' ' || p.proargtypes::text || ' ' \
             || coalesce(array_to_string(p.proallargtypes, ' '), '') \
             FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
             WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') AND p.prokind <> 'a' \
             AND p.oid NOT IN (SELECT objid FROM pg_depend WHERE classid = 'pg_proc'::regclass AND deptype = 'e') \
             ORDER BY p.oid",
        )?;
        let mut begun = false;
        for row in &rows {
            let (definition, types) = (self.text(row, 0)?, self.text(row, 1)?);
            let has_rows = types.split(' ').any(|ty| ty.parse::<i64>().is_ok_and(|ty| ty >= ROW_TYPES));
            if has_rows != of_rows {
                continue;
            }
            if !std::mem::replace(&mut begun, true) {
                writeln!(self.out, "\nSET check_function_bodies = off;")?;
            }
            writeln!(self.out, "{};", definition.trim_end_matches('\n'))?;
        }
        Ok(())
    }

    /// Operators of users that call functions of rows of relations, or all others.
    pub(super) fn operators(&mut self, of_rows: bool) -> Result<()> {
        let rows = self.query(
            "SELECT 'CREATE OPERATOR ' || quote_ident(n.nspname::text) || '.' || o.oprname::text \
             || ' (FUNCTION = ' || o.oprcode::regproc::text \
             || CASE WHEN o.oprleft <> 0 THEN ', LEFTARG = ' || format_type(o.oprleft, NULL) ELSE '' END \
             || ', RIGHTARG = ' || format_type(o.oprright, NULL) \
             || coalesce((SELECT ', COMMUTATOR = OPERATOR(' || quote_ident(m.nspname::text) || '.' || c.oprname::text \
             || ')' FROM pg_operator c JOIN pg_namespace m ON m.oid = c.oprnamespace WHERE c.oid = o.oprcom::oid), '') \
             || coalesce((SELECT ', NEGATOR = OPERATOR(' || quote_ident(m.nspname::text) || '.' || c.oprname::text \
             || ')' FROM pg_operator c JOIN pg_namespace m ON m.oid = c.oprnamespace WHERE c.oid = o.oprnegate::oid), '') \
             || CASE WHEN o.oprrest::oid <> 0 THEN ', RESTRICT = ' || o.oprrest::regproc::text ELSE '' END \
             || CASE WHEN o.oprjoin::oid <> 0 THEN ', JOIN = ' || o.oprjoin::regproc::text ELSE '' END \
             || CASE WHEN o.oprcanhash THEN ', HASHES' ELSE '' END \
             || CASE WHEN o.oprcanmerge THEN ', MERGES' ELSE '' END || ')', \
             p.prorettype::int8::text || ' ' || p.proargtypes::text \
             FROM pg_operator o JOIN pg_namespace n ON n.oid = o.oprnamespace JOIN pg_proc p ON p.oid = o.oprcode::oid \
             WHERE o.oid >= 16384 AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY o.oid",
        )?;
        for row in &rows {
            let (statement, types) = (self.text(row, 0)?, self.text(row, 1)?);
            let has_rows = types.split(' ').any(|ty| ty.parse::<i64>().is_ok_and(|ty| ty >= ROW_TYPES));
            if has_rows == of_rows {
                writeln!(self.out, "{statement};")?;
            }
        }
        Ok(())
    }

    /// Rules, but for those that views are.
    pub(super) fn rules(&mut self) -> Result<()> {
        let rows = self.query(
            "SELECT pg_get_ruledef(r.oid), quote_ident(n.nspname::text) || '.' || quote_ident(c.relname::text), \
             quote_ident(r.rulename::text), r.ev_enabled::text \
             FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE r.rulename <> '_RETURN' AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY r.oid",
        )?;
        if !rows.is_empty() {
            // What has no schema in a rule is there.
            writeln!(self.out, "\nSET search_path = public;")?;
        }
        for row in &rows {
            let (definition, relation) = (self.text(row, 0)?, self.text(row, 1)?);
            let (name, enabled) = (self.text(row, 2)?, self.text(row, 3)?);
            writeln!(self.out, "{};", definition.trim_end_matches(';'))?;
            let how = match enabled.as_str() {
                "D" => "DISABLE",
                "R" => "ENABLE REPLICA",
                "A" => "ENABLE ALWAYS",
                _ => continue,
            };
            writeln!(self.out, "ALTER TABLE {relation} {how} RULE {name};")?;
        }
        Ok(())
    }

    /// Extended statistics.
    pub(super) fn statistics(&mut self) -> Result<()> {
        let rows = self.query(
            "SELECT pg_get_statisticsobjdef(s.oid), quote_ident(n.nspname::text) || '.' || quote_ident(s.stxname::text), \
             s.stxstattarget::text FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace ORDER BY s.oid",
        )?;
        for row in &rows {
            let (definition, name) = (self.text(row, 0)?, self.text(row, 1)?);
            writeln!(self.out, "{definition};")?;
            let target = self.text(row, 2)?;
            if target != "-1" {
                writeln!(self.out, "ALTER STATISTICS {name} SET STATISTICS {target};")?;
            }
        }
        Ok(())
    }

    /// Aggregates and casts, whose functions are there.
    pub(super) fn aggregates_and_casts(&mut self) -> Result<()> {
        let aggregates = self.query(
            "SELECT 'CREATE AGGREGATE ' || quote_ident(n.nspname::text) || '.' || quote_ident(p.proname::text) || '(' \
             || CASE WHEN p.pronargs = 0 THEN '*' ELSE pg_get_function_arguments(p.oid) END \
             || ') (SFUNC = ' || a.aggtransfn::regproc::text || ', STYPE = ' || format_type(a.aggtranstype, NULL) \
             || CASE WHEN a.aggfinalfn::oid <> 0 THEN ', FINALFUNC = ' || a.aggfinalfn::regproc::text ELSE '' END \
             || CASE WHEN a.aggfinalextra THEN ', FINALFUNC_EXTRA' ELSE '' END \
             || coalesce(', INITCOND = ' || quote_literal(a.agginitval), '') || ')' \
             FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid::oid \
             JOIN pg_namespace n ON n.oid = p.pronamespace \
             WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') \
             AND p.oid NOT IN (SELECT objid FROM pg_depend WHERE classid = 'pg_proc'::regclass AND deptype = 'e') \
             ORDER BY p.oid",
        )?;
        let casts = self.query(
            "SELECT 'CREATE CAST (' || format_type(castsource, NULL) || ' AS ' || format_type(casttarget, NULL) || ') ' \
             || CASE castmethod WHEN 'i' THEN 'WITH INOUT' WHEN 'b' THEN 'WITHOUT FUNCTION' \
             ELSE 'WITH FUNCTION ' || castfunc::regprocedure::text END \
             || CASE castcontext WHEN 'i' THEN ' AS IMPLICIT' WHEN 'a' THEN ' AS ASSIGNMENT' ELSE '' END \
             FROM pg_cast WHERE oid >= 16384 ORDER BY oid",
        )?;
        for row in aggregates.iter().chain(&casts) {
            let statement = self.text(row, 0)?;
            writeln!(self.out, "{statement};")?;
        }
        Ok(())
    }

    pub(super) fn triggers(&mut self) -> Result<()> {
        let rows = self.query(
            "SELECT pg_get_triggerdef(t.oid), quote_ident(n.nspname::text) || '.' || quote_ident(c.relname::text), \
             quote_ident(t.tgname::text), t.tgenabled::text, (t.tgparentid <> 0)::text \
             FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE NOT t.tgisinternal ORDER BY t.oid",
        )?;
        for row in &rows {
            let (definition, table) = (self.text(row, 0)?, self.text(row, 1)?);
            let (name, enabled) = (self.text(row, 2)?, self.text(row, 3)?);
            // Copies come with the trigger that they are of.
            if self.text(row, 4)? != "true" {
                writeln!(self.out, "{definition};")?;
            }
            let how = match enabled.as_str() {
                "D" => "DISABLE",
                "R" => "ENABLE REPLICA",
                "A" => "ENABLE ALWAYS",
                _ => continue,
            };
            writeln!(self.out, "ALTER TABLE {table} {how} TRIGGER {name};")?;
        }
        Ok(())
    }
}
