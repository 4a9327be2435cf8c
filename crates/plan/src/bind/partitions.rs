//! Partitioned tables in statements: the tables below them, and the keys by which rows are divided.

use std::sync::Arc;

use colibri_catalog::{Index, ObjectId, PartitionBound, Partitioned, RangeBound, Table};
use colibri_types::{ColumnType, Datum, Env, Error, Result, text_io};

use super::logical::Source;
use super::{Binder, rewrite};
use crate::expr::Expr;
use crate::plan::TableRules;
use crate::plan::partitions::{Bound, Child, Edge, Leaf, Router, RouterKey, Target, Tree, TreeRouter};

/// A partitioned table that a statement writes to.
#[derive(Debug, Clone)]
pub struct WrittenTree {
    pub tree: Arc<Tree>,
    /// The rules of its leaves.
    pub rules: Vec<Arc<TableRules>>,
}

/// A value of a bound as the catalogue keeps it.
///
/// # Errors
/// The text is damaged.
fn value_of(text: &str, ty: ColumnType) -> Result<Datum> {
    text_io::parse(ty.ty, ty.modifier, text, &Env::default())
}

/// What a partition takes, of keys of some types.
///
/// # Errors
/// The catalogue is damaged.
pub fn bound_of(bound: &PartitionBound, types: &[ColumnType]) -> Result<Bound> {
    let ty = |at: usize| types.get(at).copied().ok_or_else(|| Error::internal("a bound has more values than the key"));
    let edges = |edges: &[RangeBound]| {
        let edge = |(at, edge): (usize, &RangeBound)| {
            Ok(match edge {
                RangeBound::Min => Edge::Min,
                RangeBound::Max => Edge::Max,
                RangeBound::Value(text) => Edge::Value(value_of(text, ty(at)?)?),
            })
        };
        edges.iter().enumerate().map(edge).collect::<Result<Vec<Edge>>>()
    };
    Ok(match bound {
        PartitionBound::Range(low, high) => Bound::Range(edges(low)?, edges(high)?),
        PartitionBound::List(values) => {
            let value = |value: &Option<String>| value.as_ref().map_or(Ok(Datum::Null), |text| value_of(text, ty(0)?));
            Bound::List(values.iter().map(value).collect::<Result<Vec<Datum>>>()?)
        }
        PartitionBound::Hash(modulus, remainder) => Bound::Hash((*modulus).into(), (*remainder).into()),
        PartitionBound::Default => Bound::Default,
    })
}

/// Which of a table's columns each column of another one is, by their names.
fn columns_in(table: &Table, of: &Table) -> Vec<Option<usize>> {
    let place = |column: &colibri_catalog::Column| if column.dropped { None } else { table.column(&column.name) };
    of.columns.iter().map(place).collect()
}

/// A table as one that has rows of another one, which may be itself.
fn heir(root: &Table, table: Arc<Table>) -> Leaf {
    let columns = columns_in(&table, root);
    let own = if table.id == root.id { &root.indexes[..] } else { &[] };
    let indexes = own.iter().map(|index| (index.id, Arc::clone(index))).collect();
    Leaf { table, columns, indexes }
}

impl Binder<'_> {
    /// What divides the rows of a partitioned table, over rows in which its columns are these.
    pub fn router(&mut self, table: &Arc<Table>, columns: &[Option<usize>]) -> Result<Router> {
        let damaged = || Error::internal("a partitioned table has no key");
        let Partitioned { strategy, keys: places, partitions } = table.partitioned.as_ref().ok_or_else(damaged)?;
        let expressions =
            if table.expressions().next().is_some() { Some(self.index_expressions(table)?) } else { None };
        let mut keys = Vec::with_capacity(places.len());
        for &place in places {
            let of_place = |(known, _): &&(usize, Expr)| *known == place;
            let mut expr = match expressions.as_ref().and_then(|all| all.iter().find(of_place)) {
                Some((_, expr)) => expr.clone(),
                None => Expr::Column(place),
            };
            rewrite::substitute(&mut expr, &|column| {
                columns.get(column).copied().flatten().map_or(Expr::Const(Datum::Null), Expr::Column)
            });
            let column = &table.columns[place];
            let name = column.expression.clone().unwrap_or_else(|| column.name.to_string());
            keys.push(RouterKey { expr, ty: column.ty, name });
        }
        let types: Vec<ColumnType> = keys.iter().map(|key| key.ty).collect();
        let mut children = Vec::with_capacity(partitions.len());
        for &id in partitions {
            let child = self.catalog.table(id).and_then(|table| table.partition_of.as_ref()).ok_or_else(damaged)?;
            children.push(Child { id, bound: bound_of(&child.bound, &types)? });
        }
        Ok(Router::new(Arc::clone(table), *strategy, keys, children))
    }

    /// What a partition's rows have to obey since it is one: for each table above, what divides its
    /// rows, over rows of the partition, and which of its children they have to go to.
    pub fn partition_levels(&mut self, table: &Arc<Table>) -> Result<Vec<(Arc<Router>, usize)>> {
        let mut levels = Vec::new();
        let mut child = table.id;
        for id in self.catalog.partition_ancestors(table) {
            let damaged = || Error::internal("a partition is not among those of its table");
            let above = self.catalog.table(id).cloned().ok_or_else(damaged)?;
            self.used.push(id);
            let router = self.router(&above, &columns_in(table, &above))?;
            let place = router.place_of(child).ok_or_else(damaged)?;
            levels.push((Arc::new(router), place));
            child = id;
        }
        Ok(levels)
    }

    /// A table with all that is below it: its partitions, or the tables that inherit from it.
    pub fn tree(&mut self, root: &Arc<Table>) -> Result<Arc<Tree>> {
        if root.partitioned.is_none() {
            return self.tree_of_heirs(root);
        }
        let mut tree = Tree { root: Arc::clone(root), routers: Vec::new(), leaves: Vec::new() };
        let indexes: Vec<(ObjectId, ObjectId)> = root.indexes.iter().map(|index| (index.id, index.id)).collect();
        self.add_router(&mut tree, root, &indexes)?;
        Ok(Arc::new(tree))
    }

    /// `indexes`: those of the root, each with what it is in the table.
    fn add_router(&mut self, tree: &mut Tree, table: &Arc<Table>, indexes: &[(ObjectId, ObjectId)]) -> Result<usize> {
        let root = Arc::clone(&tree.root);
        // Keys are over rows of the tree: which column of the root is it?
        let columns = columns_in(&root, table);
        let router = self.router(table, &columns)?;
        let place = tree.routers.len();
        let children: Vec<ObjectId> = router.children.iter().map(|child| child.id).collect();
        tree.routers.push(TreeRouter { router, targets: Vec::new() });
        for id in children {
            let damaged = || Error::internal("a partition is not there");
            let child = self.catalog.table(id).cloned().ok_or_else(damaged)?;
            self.used.push(id);
            let part_of = |(of_root, here): &(ObjectId, ObjectId)| {
                let own: Option<&Arc<Index>> = child.indexes.iter().find(|index| index.parent == Some(*here));
                own.map(|own| (*of_root, Arc::clone(own)))
            };
            let own: Vec<(ObjectId, Arc<Index>)> = indexes.iter().filter_map(part_of).collect();
            let target = if child.partitioned.is_some() {
                let below: Vec<(ObjectId, ObjectId)> = own.iter().map(|(root, index)| (*root, index.id)).collect();
                Target::Router(self.add_router(tree, &child, &below)?)
            } else {
                let columns = columns_in(&child, &root);
                tree.leaves.push(Leaf { table: child, columns, indexes: own });
                Target::Leaf(tree.leaves.len() - 1)
            };
            tree.routers[place].targets.push(target);
        }
        Ok(place)
    }

    /// A table with those that inherit from it, each of which has rows of its own.
    fn tree_of_heirs(&mut self, root: &Arc<Table>) -> Result<Arc<Tree>> {
        let mut leaves = Vec::new();
        for id in self.catalog.partition_tree(root.id) {
            let missing = || Error::internal("a table that inherits is not there");
            let table = self.catalog.table(id).cloned().ok_or_else(missing)?;
            self.used.push(id);
            leaves.push(heir(root, table));
        }
        Ok(Arc::new(Tree { root: Arc::clone(root), routers: Vec::new(), leaves }))
    }

    /// ONLY: a partitioned table has no rows of its own, another one has those of no other.
    pub(super) fn without_leaves(source: &mut Source) {
        if let Source::Query(query) = source
            && query.barrier.is_some()
            && let super::logical::Body::Select(select) = &mut query.body
        {
            select.relations.iter_mut().for_each(|relation| Self::without_leaves(&mut relation.source));
        }
        if let Source::Tree(tree) = source {
            let root = Arc::clone(&tree.root);
            let leaves = match root.partitioned {
                Some(_) => Vec::new(),
                None => vec![heir(&root, Arc::clone(&root))],
            };
            *source = Source::Tree(Arc::new(Tree { root, routers: Vec::new(), leaves }));
        }
    }

    /// Expressions over rows of a tree, as INSERT has them, which puts rows into the root alone.
    pub(super) fn over_root(table: &Arc<Table>, exprs: &mut [Expr]) {
        if table.partitioned.is_none() && table.is_tree() {
            let root = heir(table, Arc::clone(table));
            exprs.iter_mut().for_each(|expr| root.own(expr));
        }
    }

    /// The tree of a table that rows are inserted into; `None` of a table that has these itself.
    pub fn inserted_tree(&mut self, table: &Arc<Table>) -> Result<Option<WrittenTree>> {
        if table.partitioned.is_some() { self.written_tree(table) } else { Ok(None) }
    }

    /// The tree of a table that is written to; `None` of a table that has its rows itself.
    pub fn written_tree(&mut self, table: &Arc<Table>) -> Result<Option<WrittenTree>> {
        if !table.is_tree() {
            return Ok(None);
        }
        let tree = self.tree(table)?;
        // Their rows are read without the columns that they have alone, which triggers would miss.
        let misses = |leaf: &Leaf| {
            let has_own = leaf.table.live_columns().any(|(place, _)| !leaf.columns.contains(&Some(place)));
            has_own && !leaf.table.triggers.is_empty()
        };
        if tree.leaves.iter().any(misses) {
            return Err(Error::unsupported("changing a table with heirs that have columns of their own and triggers"));
        }
        // Conditions of a view that is written to are conditions on the rows of each leaf.
        let checks = self.target_view.as_ref().map_or_else(Vec::new, |view| view.checks.clone());
        let mut rules = Vec::with_capacity(tree.leaves.len());
        for leaf in &tree.leaves {
            let mut own = checks.clone();
            own.iter_mut().for_each(|(_, condition)| leaf.own(condition));
            rules.push(self.rules_by_views(&leaf.table, &own)?);
        }
        Ok(Some(WrittenTree { tree, rules }))
    }
}
