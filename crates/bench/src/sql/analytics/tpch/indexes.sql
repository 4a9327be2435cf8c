-- Indexes of the foreign keys by which the queries join, where no primary key begins with them.
CREATE INDEX IF NOT EXISTS supplier_by_nation ON supplier (s_nationkey);
CREATE INDEX IF NOT EXISTS partsupp_by_supplier ON partsupp (ps_suppkey);
CREATE INDEX IF NOT EXISTS customer_by_nation ON customer (c_nationkey);
CREATE INDEX IF NOT EXISTS orders_by_customer ON orders (o_custkey);
CREATE INDEX IF NOT EXISTS lineitem_by_part ON lineitem (l_partkey, l_suppkey);
CREATE INDEX IF NOT EXISTS lineitem_by_supplier ON lineitem (l_suppkey);
