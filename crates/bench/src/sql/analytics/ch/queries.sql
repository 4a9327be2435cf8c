-- The 22 questions of CH-benCHmark: those of TPC-H, asked of TPC-C's tables. A stock's supplier is the rest of the
-- product of its warehouse and item by 10,000; a customer's nation is the code of the first character of the state.
-- All that is loaded happened on 2020-01-01. Where rows may come in more than one order, further columns decide it.

-- q1
SELECT ol_number, sum(ol_quantity), sum(ol_amount), avg(ol_quantity), avg(ol_amount), count(*)
    FROM order_line WHERE ol_delivery_d >= timestamp '2020-01-01' GROUP BY ol_number ORDER BY ol_number;

-- q2
SELECT su_suppkey, su_name, n_name, i_id, i_name, su_address, su_phone, su_comment
    FROM item, supplier, stock, nation, region,
        (SELECT s_i_id AS least_item, min(s_quantity) AS least FROM stock, supplier, nation, region
        WHERE s_w_id * s_i_id % 10000 = su_suppkey AND su_nationkey = n_nationkey AND n_regionkey = r_regionkey
        AND r_name = 'EUROPE' GROUP BY s_i_id) AS of_items
    WHERE i_id = s_i_id AND s_w_id * s_i_id % 10000 = su_suppkey AND su_nationkey = n_nationkey
    AND n_regionkey = r_regionkey AND i_data LIKE '%b' AND r_name = 'EUROPE' AND i_id = least_item AND s_quantity = least
    ORDER BY n_name, su_name, i_id, s_w_id LIMIT 100;

-- q3
SELECT ol_o_id, ol_w_id, ol_d_id, sum(ol_amount) AS revenue, o_entry_d FROM customer, new_order, orders, order_line
    WHERE c_state LIKE 'A%' AND c_w_id = o_w_id AND c_d_id = o_d_id AND c_id = o_c_id AND no_w_id = o_w_id
    AND no_d_id = o_d_id AND no_o_id = o_id AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
    AND o_entry_d >= timestamp '2020-01-01' GROUP BY ol_o_id, ol_w_id, ol_d_id, o_entry_d
    ORDER BY revenue DESC, o_entry_d, ol_w_id, ol_d_id, ol_o_id LIMIT 100;

-- q4
SELECT o_ol_cnt, count(*) FROM orders WHERE o_entry_d >= timestamp '2020-01-01' AND EXISTS
    (SELECT * FROM order_line WHERE o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id AND ol_delivery_d >= o_entry_d)
    GROUP BY o_ol_cnt ORDER BY o_ol_cnt;

-- q5
SELECT n_name, sum(ol_amount) AS revenue FROM customer, orders, order_line, stock, supplier, nation, region
    WHERE c_w_id = o_w_id AND c_d_id = o_d_id AND c_id = o_c_id AND ol_w_id = o_w_id AND ol_d_id = o_d_id
    AND ol_o_id = o_id AND ol_supply_w_id = s_w_id AND ol_i_id = s_i_id AND s_w_id * s_i_id % 10000 = su_suppkey
    AND ascii(substr(c_state, 1, 1)) = su_nationkey AND su_nationkey = n_nationkey AND n_regionkey = r_regionkey
    AND r_name = 'EUROPE' AND o_entry_d >= timestamp '2020-01-01' GROUP BY n_name ORDER BY revenue DESC, n_name;

-- q6
SELECT sum(ol_amount) FROM order_line WHERE ol_delivery_d >= timestamp '2019-01-01'
    AND ol_delivery_d < timestamp '2030-01-01' AND ol_quantity BETWEEN 1 AND 100000;

-- q7
SELECT su_nationkey, substr(c_state, 1, 1) AS customer_nation, extract(year FROM o_entry_d) AS year, sum(ol_amount)
    FROM supplier, stock, order_line, orders, customer, nation n1, nation n2
    WHERE ol_supply_w_id = s_w_id AND ol_i_id = s_i_id AND s_w_id * s_i_id % 10000 = su_suppkey AND ol_w_id = o_w_id
    AND ol_d_id = o_d_id AND ol_o_id = o_id AND c_w_id = o_w_id AND c_d_id = o_d_id AND c_id = o_c_id
    AND su_nationkey = n1.n_nationkey AND ascii(substr(c_state, 1, 1)) = n2.n_nationkey
    AND ((n1.n_name = 'GERMANY' AND n2.n_name = 'CAMBODIA') OR (n1.n_name = 'CAMBODIA' AND n2.n_name = 'GERMANY'))
    AND ol_delivery_d BETWEEN timestamp '2019-01-01' AND timestamp '2030-01-01'
    GROUP BY su_nationkey, substr(c_state, 1, 1), extract(year FROM o_entry_d)
    ORDER BY su_nationkey, customer_nation, year;

-- q8
SELECT extract(year FROM o_entry_d) AS year, sum(CASE WHEN n2.n_name = 'GERMANY' THEN ol_amount ELSE 0 END) / sum(ol_amount)
    FROM item, supplier, stock, order_line, orders, customer, nation n1, nation n2, region
    WHERE i_id = s_i_id AND ol_i_id = s_i_id AND ol_supply_w_id = s_w_id AND s_w_id * s_i_id % 10000 = su_suppkey
    AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND c_w_id = o_w_id AND c_d_id = o_d_id
    AND c_id = o_c_id AND n1.n_nationkey = ascii(substr(c_state, 1, 1)) AND n1.n_regionkey = r_regionkey AND ol_i_id < 1000
    AND r_name = 'EUROPE' AND su_nationkey = n2.n_nationkey
    AND o_entry_d BETWEEN timestamp '2019-01-01' AND timestamp '2030-01-01' AND i_data LIKE '%b'
    GROUP BY extract(year FROM o_entry_d) ORDER BY year;

-- q9
SELECT n_name, extract(year FROM o_entry_d) AS year, sum(ol_amount) FROM item, stock, supplier, order_line, orders, nation
    WHERE ol_i_id = s_i_id AND ol_supply_w_id = s_w_id AND s_w_id * s_i_id % 10000 = su_suppkey AND ol_w_id = o_w_id
    AND ol_d_id = o_d_id AND ol_o_id = o_id AND ol_i_id = i_id AND su_nationkey = n_nationkey AND i_data LIKE '%BB%'
    GROUP BY n_name, extract(year FROM o_entry_d) ORDER BY n_name, year DESC;

-- q10
SELECT c_w_id, c_d_id, c_id, c_last, sum(ol_amount) AS revenue, c_city, c_phone, n_name
    FROM customer, orders, order_line, nation
    WHERE c_w_id = o_w_id AND c_d_id = o_d_id AND c_id = o_c_id AND ol_w_id = o_w_id AND ol_d_id = o_d_id
    AND ol_o_id = o_id AND o_entry_d >= timestamp '2020-01-01' AND o_entry_d <= ol_delivery_d
    AND n_nationkey = ascii(substr(c_state, 1, 1)) GROUP BY c_w_id, c_d_id, c_id, c_last, c_city, c_phone, n_name
    ORDER BY revenue DESC, c_w_id, c_d_id, c_id LIMIT 20;

-- q11
SELECT s_i_id, sum(s_order_cnt) AS ordered FROM stock, supplier, nation
    WHERE s_w_id * s_i_id % 10000 = su_suppkey AND su_nationkey = n_nationkey AND n_name = 'GERMANY'
    GROUP BY s_i_id HAVING sum(s_order_cnt) > (SELECT sum(s_order_cnt) * 0.005 FROM stock, supplier, nation
        WHERE s_w_id * s_i_id % 10000 = su_suppkey AND su_nationkey = n_nationkey AND n_name = 'GERMANY')
    ORDER BY ordered DESC, s_i_id;

-- q12
SELECT o_ol_cnt, sum(CASE WHEN o_carrier_id IN (1, 2) THEN 1 ELSE 0 END),
    sum(CASE WHEN o_carrier_id NOT IN (1, 2) THEN 1 ELSE 0 END) FROM orders, order_line
    WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND o_entry_d <= ol_delivery_d
    AND ol_delivery_d < timestamp '2030-01-01' GROUP BY o_ol_cnt ORDER BY o_ol_cnt;

-- q13
SELECT c_count, count(*) AS customers FROM
    (SELECT c_w_id, c_d_id, c_id, count(o_id) AS c_count FROM customer LEFT OUTER JOIN orders
        ON c_w_id = o_w_id AND c_d_id = o_d_id AND c_id = o_c_id AND o_carrier_id > 8
        GROUP BY c_w_id, c_d_id, c_id) AS of_customers
    GROUP BY c_count ORDER BY customers DESC, c_count DESC;

-- q14
SELECT 100.00 * sum(CASE WHEN i_data LIKE 'P%' THEN ol_amount ELSE 0 END) / (1 + sum(ol_amount)) FROM order_line, item
    WHERE ol_i_id = i_id AND ol_delivery_d >= timestamp '2020-01-01' AND ol_delivery_d < timestamp '2030-01-01';

-- q15
WITH revenue AS
    (SELECT s_w_id * s_i_id % 10000 AS supplier_no, sum(ol_amount) AS total FROM order_line, stock
        WHERE ol_i_id = s_i_id AND ol_supply_w_id = s_w_id AND ol_delivery_d >= timestamp '2020-01-01'
        GROUP BY s_w_id * s_i_id % 10000)
    SELECT su_suppkey, su_name, su_address, su_phone, total FROM supplier, revenue
    WHERE su_suppkey = supplier_no AND total = (SELECT max(total) FROM revenue) ORDER BY su_suppkey LIMIT 100;

-- q16
SELECT i_name, substr(i_data, 1, 3) AS brand, i_price, count(DISTINCT s_w_id * s_i_id % 10000) AS suppliers
    FROM stock, item WHERE i_id = s_i_id AND i_data NOT LIKE 'zz%' AND s_w_id * s_i_id % 10000 NOT IN
        (SELECT su_suppkey FROM supplier WHERE su_comment LIKE '%bad%')
    GROUP BY i_name, substr(i_data, 1, 3), i_price ORDER BY suppliers DESC, i_price, substr(i_data, 1, 3) COLLATE "C" LIMIT 100;

-- q17
SELECT sum(ol_amount) / 2.0 FROM order_line,
    (SELECT i_id, avg(ol_quantity) AS mean FROM item, order_line WHERE i_data LIKE '%b%' AND ol_i_id = i_id
        GROUP BY i_id) AS of_items
    WHERE ol_i_id = i_id AND ol_quantity <= mean;

-- q18
SELECT c_last, c_id, o_w_id, o_d_id, o_id, o_entry_d, o_ol_cnt, sum(ol_amount) AS amount FROM customer, orders, order_line
    WHERE c_w_id = o_w_id AND c_d_id = o_d_id AND c_id = o_c_id AND ol_w_id = o_w_id AND ol_d_id = o_d_id
    AND ol_o_id = o_id GROUP BY o_w_id, o_d_id, o_id, c_id, c_last, o_entry_d, o_ol_cnt HAVING sum(ol_amount) > 200
    ORDER BY amount DESC, o_entry_d, o_w_id, o_d_id, o_id LIMIT 100;

-- q19
SELECT sum(ol_amount) FROM order_line, item
    WHERE (ol_i_id = i_id AND i_data LIKE '%a' AND ol_quantity BETWEEN 1 AND 10 AND i_price BETWEEN 1 AND 400000
        AND ol_w_id IN (1, 2, 3))
    OR (ol_i_id = i_id AND i_data LIKE '%b' AND ol_quantity BETWEEN 1 AND 10 AND i_price BETWEEN 1 AND 400000
        AND ol_w_id IN (1, 2, 4))
    OR (ol_i_id = i_id AND i_data LIKE '%c' AND ol_quantity BETWEEN 1 AND 10 AND i_price BETWEEN 1 AND 400000
        AND ol_w_id IN (1, 5, 3));

-- q20
SELECT su_name, su_address FROM supplier, nation WHERE su_suppkey IN
    (SELECT s_w_id * s_i_id % 10000 FROM stock, order_line WHERE s_i_id IN (SELECT i_id FROM item WHERE i_data LIKE 'c%')
        AND ol_i_id = s_i_id AND ol_supply_w_id = s_w_id AND ol_delivery_d >= timestamp '2020-01-01'
        GROUP BY s_w_id, s_i_id, s_quantity HAVING 2 * s_quantity > sum(ol_quantity))
    AND su_nationkey = n_nationkey AND n_name = 'GERMANY' ORDER BY su_name;

-- q21
SELECT su_name, count(*) AS waiting FROM supplier, order_line l1, orders, stock, nation
    WHERE l1.ol_w_id = o_w_id AND l1.ol_d_id = o_d_id AND l1.ol_o_id = o_id AND l1.ol_supply_w_id = s_w_id
    AND l1.ol_i_id = s_i_id AND s_w_id * s_i_id % 10000 = su_suppkey AND l1.ol_delivery_d >= o_entry_d
    AND NOT EXISTS (SELECT * FROM order_line l2 WHERE l2.ol_w_id = l1.ol_w_id AND l2.ol_d_id = l1.ol_d_id
        AND l2.ol_o_id = l1.ol_o_id AND l2.ol_delivery_d > l1.ol_delivery_d)
    AND su_nationkey = n_nationkey AND n_name = 'GERMANY' GROUP BY su_name ORDER BY waiting DESC, su_name;

-- q22
SELECT substr(c_state, 1, 1) AS country, count(*), sum(c_balance) FROM customer
    WHERE substr(c_phone, 1, 1) IN ('1', '2', '3', '4', '5', '6', '7') AND c_balance >=
        (SELECT avg(c_balance) FROM customer WHERE substr(c_phone, 1, 1) IN ('1', '2', '3', '4', '5', '6', '7'))
    AND NOT EXISTS (SELECT * FROM orders WHERE o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id AND o_carrier_id > 5)
    GROUP BY substr(c_state, 1, 1) ORDER BY substr(c_state, 1, 1) COLLATE "C";
