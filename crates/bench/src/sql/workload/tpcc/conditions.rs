//! The twelve consistency conditions (clause 3.3.2), each a query for how many rows break it.
//!
//! They are asked for some warehouses at a time, so that no query needs memory for all of them. All
//! sums are of `numeric`, so they are exact. NULL never passes: a comparison that is not true is
//! broken.
//!
//! Condition 11 is stated for freshly loaded data; each delivery since moves both sides by one, so
//! it is checked with the customers' counts of deliveries added. Condition 2 exempts districts
//! without new orders, as clause 3.3.2.3 does.

use super::{DISTRICTS, Scale};
use crate::sql::target::{Failure, Session, Target};
use crate::sql::workload::Finding;

/// Warehouses that a query looks at.
const WAREHOUSES_A_QUERY: i64 = 5;

/// A name, and a query whose one figure has to be zero. `{a}` and `{b}` stand for the first and the
/// last warehouse, `{d}` for the orders of a district that are loaded as delivered.
const CONDITIONS: [(&str, &str); 12] = [
    (
        "1: W_YTD = sum(D_YTD)",
        "SELECT count(*) FROM warehouse
           LEFT JOIN (SELECT d_w_id, sum(d_ytd) AS paid FROM district WHERE d_w_id BETWEEN {a} AND {b} GROUP BY d_w_id) AS d
             ON d_w_id = w_id
         WHERE w_id BETWEEN {a} AND {b} AND (w_ytd = paid) IS NOT TRUE",
    ),
    (
        "2: D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
        "SELECT count(*) FROM district
           LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS newest FROM orders WHERE o_w_id BETWEEN {a} AND {b}
             GROUP BY o_w_id, o_d_id) AS o ON o_w_id = d_w_id AND o_d_id = d_id
           LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS newest_new FROM new_order WHERE no_w_id BETWEEN {a} AND {b}
             GROUP BY no_w_id, no_d_id) AS n ON no_w_id = d_w_id AND no_d_id = d_id
         WHERE d_w_id BETWEEN {a} AND {b}
           AND (d_next_o_id - 1 = newest AND (newest_new IS NULL OR newest_new = newest)) IS NOT TRUE",
    ),
    (
        "3: max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW_ORDER",
        "SELECT count(*) FROM (SELECT no_w_id, no_d_id, max(no_o_id) - min(no_o_id) + 1 AS span, count(*) AS there
           FROM new_order WHERE no_w_id BETWEEN {a} AND {b} GROUP BY no_w_id, no_d_id) AS n WHERE (span = there) IS NOT TRUE",
    ),
    (
        "4: sum(O_OL_CNT) = rows of ORDER_LINE in a district",
        "SELECT count(*) FROM district
           LEFT JOIN (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS lines FROM orders WHERE o_w_id BETWEEN {a} AND {b}
             GROUP BY o_w_id, o_d_id) AS o ON o_w_id = d_w_id AND o_d_id = d_id
           LEFT JOIN (SELECT ol_w_id, ol_d_id, count(*) AS there FROM order_line WHERE ol_w_id BETWEEN {a} AND {b}
             GROUP BY ol_w_id, ol_d_id) AS l ON ol_w_id = d_w_id AND ol_d_id = d_id
         WHERE d_w_id BETWEEN {a} AND {b} AND (lines = there) IS NOT TRUE",
    ),
    (
        "5: O_CARRIER_ID is null exactly where there is a row of NEW_ORDER",
        "SELECT (SELECT count(*) FROM orders
             LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
             WHERE o_w_id BETWEEN {a} AND {b} AND (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL))
           + (SELECT count(*) FROM new_order
             LEFT JOIN orders ON o_w_id = no_w_id AND o_d_id = no_d_id AND o_id = no_o_id
             WHERE no_w_id BETWEEN {a} AND {b} AND o_id IS NULL)",
    ),
    (
        "6: O_OL_CNT = rows of ORDER_LINE of an order",
        "SELECT count(*) FROM orders
           LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS there FROM order_line
             WHERE ol_w_id BETWEEN {a} AND {b} GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l
             ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
         WHERE o_w_id BETWEEN {a} AND {b} AND (o_ol_cnt = there) IS NOT TRUE",
    ),
    (
        "7: OL_DELIVERY_D is null exactly where O_CARRIER_ID is",
        "SELECT count(*) FROM order_line
           LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
         WHERE ol_w_id BETWEEN {a} AND {b}
           AND (o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL))",
    ),
    (
        "8: W_YTD = sum(H_AMOUNT)",
        "SELECT count(*) FROM warehouse
           LEFT JOIN (SELECT h_w_id, sum(h_amount) AS paid FROM history WHERE h_w_id BETWEEN {a} AND {b} GROUP BY h_w_id) AS h
             ON h_w_id = w_id
         WHERE w_id BETWEEN {a} AND {b} AND (w_ytd = paid) IS NOT TRUE",
    ),
    (
        "9: D_YTD = sum(H_AMOUNT) of a district",
        "SELECT count(*) FROM district
           LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history WHERE h_w_id BETWEEN {a} AND {b}
             GROUP BY h_w_id, h_d_id) AS h ON h_w_id = d_w_id AND h_d_id = d_id
         WHERE d_w_id BETWEEN {a} AND {b} AND (d_ytd = paid) IS NOT TRUE",
    ),
    (
        "10: C_BALANCE = sum(OL_AMOUNT) delivered - sum(H_AMOUNT)",
        "SELECT count(*) FROM customer
           LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered FROM orders
               JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
             WHERE o_w_id BETWEEN {a} AND {b} AND ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS d
             ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
           LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history
             WHERE h_c_w_id BETWEEN {a} AND {b} GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h
             ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
         WHERE c_w_id BETWEEN {a} AND {b} AND (c_balance = coalesce(delivered, 0) - paid) IS NOT TRUE",
    ),
    (
        "11: rows of ORDERS - rows of NEW_ORDER = 2100 + deliveries",
        "SELECT count(*) FROM district
           LEFT JOIN (SELECT o_w_id, o_d_id, count(*) AS ordered FROM orders WHERE o_w_id BETWEEN {a} AND {b}
             GROUP BY o_w_id, o_d_id) AS o ON o_w_id = d_w_id AND o_d_id = d_id
           LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS waiting FROM new_order WHERE no_w_id BETWEEN {a} AND {b}
             GROUP BY no_w_id, no_d_id) AS n ON no_w_id = d_w_id AND no_d_id = d_id
           LEFT JOIN (SELECT c_w_id, c_d_id, sum(c_delivery_cnt) AS deliveries FROM customer WHERE c_w_id BETWEEN {a} AND {b}
             GROUP BY c_w_id, c_d_id) AS c ON c_w_id = d_w_id AND c_d_id = d_id
         WHERE d_w_id BETWEEN {a} AND {b} AND (ordered - coalesce(waiting, 0) = {d} + deliveries) IS NOT TRUE",
    ),
    (
        "12: C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT) delivered",
        "SELECT count(*) FROM customer
           LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered FROM orders
               JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
             WHERE o_w_id BETWEEN {a} AND {b} AND ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS d
             ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
         WHERE c_w_id BETWEEN {a} AND {b} AND (c_balance + c_ytd_payment = coalesce(delivered, 0)) IS NOT TRUE",
    ),
];

/// Checks all conditions. It first checks that the rows exist that the conditions are about, since
/// without rows every condition holds.
pub(super) async fn check(
    scale: Scale,
    target: &dyn Target,
    each: &mut (dyn FnMut(&Finding) + Send),
) -> Result<Vec<Finding>, Failure> {
    if !target.keeps_data() {
        return Ok(Vec::new());
    }
    let mut session = target.connect(&[]).await?;
    let mut findings = vec![rows_are_there(scale, &mut session).await?];
    each(&findings[0]);
    for (name, query) in CONDITIONS {
        let mut broken = 0;
        let mut first = 1;
        while first <= scale.warehouses {
            let last = (first + WAREHOUSES_A_QUERY - 1).min(scale.warehouses);
            broken += session.count(&between(query, scale, first, last)).await?;
            first = last + 1;
        }
        let found = if broken == 0 { "none broken".to_owned() } else { format!("{broken} broken") };
        findings.push(Finding::fact(format!("condition {name}"), found, "none broken", broken == 0));
        each(findings.last().expect("just pushed"));
    }
    Ok(findings)
}

fn between(query: &str, scale: Scale, first: i64, last: i64) -> String {
    let query = query.replace("{a}", &first.to_string()).replace("{b}", &last.to_string());
    query.replace("{d}", &scale.delivered().to_string())
}

async fn rows_are_there(scale: Scale, session: &mut Session) -> Result<Finding, Failure> {
    let Scale { warehouses, items, customers } = scale;
    let wanted = [warehouses, warehouses * DISTRICTS, warehouses * DISTRICTS * customers, items, warehouses * items];
    let mut found = Vec::new();
    for table in ["warehouse", "district", "customer", "item", "stock"] {
        found.push(session.count(&format!("SELECT count(*) FROM {table}")).await?);
    }
    let holds = found == wanted;
    Ok(Finding::fact(
        "rows of WAREHOUSE, DISTRICT, CUSTOMER, ITEM, STOCK",
        found.iter().map(i64::to_string).collect::<Vec<_>>().join(", "),
        wanted.map(|count| count.to_string()).join(", "),
        holds,
    ))
}
