-- Statements of a help desk and a shop, a line each. They are named by their numbers in a section. Values are
-- written out, so the plans are made for these values.

-- [point look-ups]
select * from users where id = 4711
select id, email, full_name from users where username = 'u_c4ca4238a01'
SELECT "users".* FROM "users" WHERE "users"."tenant_id" = 1 AND "users"."email" = 'user777@mail.test' LIMIT 1
select * from tickets where id = 123456
select * from tickets where id = 123456 and tenant_id = 4 and deleted_at is null
select t.* from tickets t where t.project_id = md5('p17')::uuid and t.number = 1700
select * from projects where id = md5('p99')::uuid
select * from order_items where order_id = 5000 and line_no = 1
select * from order_items where order_id = 5003
select * from products where sku = 'SKU-000777'
select 1 from users where username = 'nobody' limit 1
select exists(select 1 from customers where email = 'c500@shop.test')
select count(*) from comments where ticket_id = 12
select * from orders where ref = 'R000012345'
select customers.* from customers where customers.email in ('c1@shop.test','c2@shop.test','c3@shop.test') order by customers.email

-- [paging]
SELECT id, title, status FROM tickets ORDER BY id LIMIT 20 OFFSET 0
SELECT id, title, status FROM tickets ORDER BY id LIMIT 20 OFFSET 10000
SELECT id, title, status FROM tickets WHERE tenant_id = 1 AND deleted_at IS NULL ORDER BY created_at DESC LIMIT 25
SELECT id, title, status FROM tickets WHERE tenant_id = 1 AND deleted_at IS NULL ORDER BY created_at DESC LIMIT 25 OFFSET 5000
SELECT id, title, status FROM tickets WHERE tenant_id = 1 AND status = 'open' AND deleted_at IS NULL ORDER BY created_at DESC LIMIT 25 OFFSET 500
SELECT id, title FROM tickets WHERE (updated_at, id) < ('2023-06-01 00:00:00+00', 150000) ORDER BY updated_at DESC, id DESC LIMIT 50
SELECT id, title FROM tickets WHERE updated_at < '2023-06-01 00:00:00+00' OR (updated_at = '2023-06-01 00:00:00+00' AND id < 150000) ORDER BY updated_at DESC, id DESC LIMIT 50
select * from comments where id > 250000 order by id limit 100
select * from comments where id < 250000 order by id desc limit 100
select * from events where tenant_id = 2 order by occurred_at desc limit 50
select * from events where tenant_id = 2 and kind = 'error' order by occurred_at desc limit 50
select * from events where tenant_id = 390 order by occurred_at desc limit 50
select * from orders where tenant_id = 1 order by placed_at desc limit 20 offset 2000
select * from customers where tenant_id = 3 and deleted_at is null order by created_at desc, id limit 20
select id, full_name from users order by full_name limit 20 offset 3000
select id, full_name from users order by full_name desc, id desc limit 20
select sku, name, price from products where active and stock > 0 order by price limit 30 offset 600
select sku, name, price from products where category_id = 77 order by price limit 10
select * from tickets order by priority desc, created_at desc limit 20
select * from tickets where assignee_id is null order by created_at limit 20
select count(*) from (select id from tickets where tenant_id = 1 limit 1001) s
select * from orders where tenant_id = 1 and (placed_at, id) > ('2023-05-01', 5) order by placed_at, id limit 10
select * from events where tenant_id = 1 and (occurred_at, id) > ('2024-05-01', 5) order by occurred_at, id limit 10
select * from events where tenant_id = 1 and (occurred_at > '2024-05-01' or (occurred_at = '2024-05-01' and id > 5)) order by occurred_at, id limit 10
select * from comments where author_id = 5 and (created_at, id) < ('2023-05-01', 5) order by created_at desc, id desc limit 10
select * from tickets where tenant_id = 1 and status = 'closed' and (created_at, id) < ('2023-05-01', 5) order by created_at desc, id limit 10

-- [filters on several columns]
select count(*) from tickets where tenant_id = 1 and status = 'open'
select count(*) from tickets where tenant_id = 1 and status <> 'closed'
select count(*) from tickets where tenant_id = 5 and priority >= 4 and assignee_id is null
select id, title from tickets where tenant_id = 5 and status = 'blocked' and priority = 3 order by id
select count(*) from tickets where status = 'in_progress' and priority = 4
select count(*) from tickets where status in ('open','blocked') and priority in (4,5) and created_at > '2024-01-01'
select id, tenant_id from tickets where deleted_at is not null and status = 'open'
select count(*) from tickets where closed_at is null
select count(*) from tickets where closed_at is not null and closed_at - created_at < interval '1 day'
select count(*) from tickets where due_on < '2024-01-01' and status <> 'closed'
select id, due_on from tickets where due_on between '2023-03-01' and '2023-03-03' order by due_on, id
select count(*) from users where is_active and deleted_at is null and role = 'agent'
select id, email from users where country = 'DE' and role = 'admin' and is_active = true
select count(*) from users where country is null
select count(*) from users where last_login is null or last_login < '2023-09-01'
select id from users where tenant_id = 1 and role = 'agent' and is_active and deleted_at is null order by id
select count(*) from customers where city = 'Berlin' and vip
select id, name from customers where city = 'Berlin' and vip and credit > 15000 order by credit desc
select count(*) from customers where city is distinct from 'Berlin'
select count(*) from orders where status = 'delivered' and total > 4900 and note is not null
select id, total from orders where status = 'paid' and currency = 'USD' and total between 100 and 300 order by placed_at
select sku, name from products where price between 10 and 20 and active and weight is not null order by price, sku
select count(*) from products where stock = 0 or not active
select count(*) from events where kind = 'purchase' and amount > 200
select count(*) from events where kind = 'error' and occurred_at >= '2024-03-01' and occurred_at < '2024-04-01'
select count(*) from events where duration_ms > 4900
select count(*) from events where duration_ms is null and user_id is not null

-- [ranges via indexes 0.1 to 20 percent]
select count(*), sum(estimate) from tickets where created_at >= '2023-01-01' and created_at < '2023-01-02'
select count(*), sum(estimate) from tickets where created_at >= '2023-01-01' and created_at < '2023-01-10'
select count(*), sum(estimate) from tickets where created_at >= '2023-01-01' and created_at < '2023-02-01'
select count(*), sum(estimate) from tickets where created_at >= '2023-01-01' and created_at < '2023-06-01'
select count(*), max(title) from tickets where updated_at between '2023-01-01' and '2023-01-03'
select count(*), max(title) from tickets where updated_at between '2023-01-01' and '2023-01-20'
select count(*), max(title) from tickets where updated_at between '2023-01-01' and '2023-04-20'
select sum(total), avg(total) from orders where total between 1000 and 1005
select sum(total), avg(total), max(placed_at) from orders where total between 1000 and 1050
select sum(total), avg(total), max(placed_at) from orders where total between 1000 and 1500
select sum(total), avg(total), max(placed_at) from orders where total between 1000 and 2000
select sum(total) from orders where placed_at >= '2022-05-01' and placed_at < '2022-05-03'
select sum(total) from orders where placed_at >= '2022-05-01' and placed_at < '2022-06-01'
select sum(total) from orders where placed_at >= '2022-05-01' and placed_at < '2022-11-01'
select id, customer_id, total from orders where placed_at >= '2022-05-01' and placed_at < '2022-05-15' order by placed_at
select id, customer_id, total from orders where placed_at >= '2022-05-01' and placed_at < '2022-05-15' order by total desc
select * from orders where placed_at >= '2022-05-01' and placed_at < '2022-07-01' order by placed_at
select count(*), sum(credit) from customers where credit between 5000 and 5020
select count(*), max(name) from customers where credit between 5000 and 5200
select count(*), max(name) from customers where credit between 5000 and 7000
select name, credit from customers where credit between 5000 and 5400 order by credit
select count(*), max(body) from comments where created_at >= '2023-03-01' and created_at < '2023-03-02'
select count(*), max(length(body)) from comments where created_at >= '2023-03-01' and created_at < '2023-03-20'
select count(*), max(length(body)) from comments where created_at >= '2023-03-01' and created_at < '2023-07-20'
select count(*), max(length(body)) from comments where author_id between 1000 and 1100
select count(*), max(length(body)) from comments where author_id between 1000 and 3000
select count(*), max(length(body)) from comments where author_id between 1000 and 8000
select count(*), sum(author_id) from comments where ticket_id between 100 and 200
select count(*), sum(author_id) from comments where ticket_id between 1000 and 3000
select count(*), sum(author_id) from comments where ticket_id between 10000 and 30000
select count(*), avg(duration_ms) from events where occurred_at >= '2024-02-01' and occurred_at < '2024-02-02'
select count(*), avg(duration_ms) from events where occurred_at >= '2024-02-01' and occurred_at < '2024-02-20'
select count(*), avg(duration_ms) from events where kind = 'click' and occurred_at >= '2024-02-01' and occurred_at < '2024-02-20'
select count(*), avg(duration_ms) from events where user_id between 100 and 300
select count(*), avg(duration_ms) from events where user_id between 100 and 2000
select count(*), avg(duration_ms) from events where user_id between 100 and 9000
select count(*), avg(duration_ms) from events where tenant_id = 1
select count(*), avg(duration_ms) from events where tenant_id = 20
select count(*), avg(duration_ms) from events where tenant_id between 20 and 40
select count(*), sum(qty) from order_items where sku between 'SKU-001000' and 'SKU-001020'
select count(*), sum(qty) from order_items where sku between 'SKU-001000' and 'SKU-001200'
select count(*), sum(qty) from order_items where sku >= 'SKU-010000' and sku < 'SKU-013000'
select count(*), sum(qty*unit_price) from order_items where order_id between 50000 and 60000
select count(*), sum(qty*unit_price) from order_items where order_id between 50000 and 90000
select id, full_name from users where false
select id, full_name from users where full_name >= 'Ab' and full_name < 'Ad' order by full_name
select id, full_name from users where created_at > '2023-11-01' order by created_at desc
select * from users where last_login >= '2024-05-20' order by last_login desc
select reporter_id, count(*) from tickets where reporter_id < 500 group by reporter_id order by 1
select assignee_id, status, count(*) from tickets where assignee_id between 100 and 900 group by 1, 2 order by 1, 2
select * from products where price > 990 order by price desc
select * from products where category_id between 10 and 60 order by category_id, price

-- [IN lists]
select * from users where id in (1, 55, 333, 9999, 12345, 54321)
select id, title from tickets where id in (5,77,1234,45678,200000,299999,123123,99999,88888,4321) order by id
select id, title from tickets where status in ('review','blocked') and tenant_id in (3,5,7,9) order by created_at desc limit 40
select count(*) from tickets where assignee_id in (1,2,3,4,5,6,7,8,9,10,20,30,40,50,60,70,80,90,100)
select * from events where user_id in (10, 20, 30, 40) order by occurred_at desc limit 20
select count(*) from orders where status in ('new','paid','shipped')
select count(*) from orders where status not in ('delivered','cancelled')
select * from order_items where (order_id, line_no) in ((10,1),(11,2),(999,4),(123456,1))
select sku, name from products where category_id in (1,5,9,13,17,21,25,29,33,37) and active order by price limit 50
select count(*) from users where tenant_id in (select id from tenants where plan = 'enterprise')
select count(*) from customers where city in ('Rome','Oslo') and tenant_id in (1,2,3)
select kind, count(*) from events where tenant_id in (10,20,30,40,50) group by kind order by 1

-- [OR over indexes]
select count(*) from tickets where assignee_id = 500 or reporter_id = 500
select id, title from tickets where (assignee_id = 77 or reporter_id = 77) and deleted_at is null order by created_at desc limit 20
select count(*) from tickets where tenant_id = 300 or due_on = '2023-05-05'
select * from customers where email = 'c700@shop.test' or id = md5('c7')::uuid
select count(*) from users where full_name like 'Ab%' or username like 'u_ab%'
select count(*) from orders where total > 4990 or placed_at < '2021-06-10'
select count(*) from comments where author_id = 5 or ticket_id = 5 or parent_id = 5
select count(*) from events where (tenant_id = 300 and occurred_at > '2024-03-01') or user_id = 44

-- [joins 2 to 6]
select t.id, t.title, u.full_name from tickets t join users u on u.id = t.assignee_id where t.tenant_id = 50 and t.status = 'open' order by t.created_at desc limit 20
select t.id, u.full_name, p.name from tickets t join users u on u.id = t.reporter_id join projects p on p.id = t.project_id where t.id between 1000 and 1200 order by t.id
select c.id, c.body, u.full_name from comments c inner join users u on c.author_id = u.id where c.ticket_id = 40 order by c.created_at
select c.id, c.body, u.full_name, t.title, p.key from comments c join users u on c.author_id = u.id join tickets t on t.id = c.ticket_id join projects p on p.id = t.project_id where c.created_at >= '2023-04-01' and c.created_at < '2023-04-03' order by c.created_at
select o.id, c.name, o.total from orders o join customers c on c.id = o.customer_id where o.status = 'new' order by o.placed_at desc limit 50
select o.id, c.name, sum(i.qty*i.unit_price) from orders o join customers c on c.id = o.customer_id join order_items i on i.order_id = o.id where o.status = 'new' group by o.id, c.name order by o.id
select p.sku, p.name, sum(i.qty) from products p join order_items i on i.sku = p.sku where p.category_id = 50 group by p.sku, p.name order by 3 desc, 1
select ca.name, sum(i.qty*i.unit_price) as revenue from order_items i join products p on p.sku = i.sku join categories ca on ca.id = p.category_id group by ca.id, ca.name order by revenue desc, ca.name limit 20
select te.name, count(*) from tickets t join tenants te on te.id = t.tenant_id where te.plan = 'enterprise' group by te.id, te.name order by 2 desc, 1 limit 10
select te.plan, o.currency, count(*), sum(o.total) from orders o join tenants te on te.id = o.tenant_id group by 1, 2 order by 1, 2
select c.city, count(distinct o.customer_id), sum(o.total) from customers c join orders o on o.customer_id = c.id where o.placed_at >= '2023-01-01' group by c.city order by 1
select l.name, count(*) from ticket_labels tl join labels l on l.id = tl.label_id group by l.name order by 2 desc
select t.id, t.title from tickets t join ticket_labels tl on tl.ticket_id = t.id join labels l on l.id = tl.label_id where l.tenant_id = 4 and l.name = 'urgent' and t.status <> 'closed' order by t.id limit 50
select t.id from tickets t join ticket_labels a on a.ticket_id = t.id and a.label_id = 403 join ticket_labels b on b.ticket_id = t.id and b.label_id = 3 order by t.id
select u.id, u.full_name, m.role, p.name from users u join memberships m on m.user_id = u.id join projects p on p.id = m.project_id where u.tenant_id = 9 and not p.archived order by u.id, p.name limit 100
select p.name, count(m.user_id) from projects p join memberships m on m.project_id = p.id group by p.id, p.name having count(*) > 30 order by 2 desc, 1
select te.name, p.name, t.title, u.full_name, l.name, c.body from tenants te join projects p on p.tenant_id = te.id join tickets t on t.project_id = p.id join users u on u.id = t.reporter_id join ticket_labels tl on tl.ticket_id = t.id join labels l on l.id = tl.label_id join comments c on c.ticket_id = t.id where te.slug = 'tenant-200' and l.name = 'bug' order by t.id, c.id limit 100
select a.id, b.id from tickets a join tickets b on b.reporter_id = a.assignee_id where a.id between 1000 and 1100 order by 1, 2
select c1.id, c2.id from comments c1 join comments c2 on c2.parent_id = c1.id where c1.ticket_id = 5 order by 1, 2
select count(*) from comments c join tickets t on t.id = c.ticket_id where t.tenant_id = 1
select count(*) from comments c join tickets t on t.id = c.ticket_id where t.status = 'blocked'
select count(*) from order_items i join orders o on o.id = i.order_id where o.status = 'cancelled'
select count(*) from order_items i join orders o on o.id = i.order_id where o.tenant_id = 7 and i.discount is not null
select count(*) from events e join users u on u.id = e.user_id where u.role = 'admin' and e.kind = 'error'
select u.country, count(*) from events e join users u on u.id = e.user_id group by u.country order by 1
select u.country, e.kind, count(*), avg(e.duration_ms) from events e join users u on u.id = e.user_id where u.tenant_id = 1 group by 1, 2 order by 1, 2
select o.id, o.total, x.n from orders o join (select order_id, count(*) n from order_items group by order_id) x on x.order_id = o.id where o.placed_at > '2024-01-20' order by o.id
select t.id, count(*) from tickets t join comments c on c.ticket_id = t.id where t.tenant_id = 10 group by t.id having count(*) >= 5 order by 2 desc, 1 limit 20

-- [left joins]
select t.id, t.title, u.full_name from tickets t left join users u on u.id = t.assignee_id and u.is_active where t.tenant_id = 60 order by t.id limit 50
select t.id, u.full_name from tickets t left outer join users u on t.assignee_id = u.id where t.created_at > '2024-04-08' order by t.id
select u.id, u.full_name, count(t.id) from users u left join tickets t on t.assignee_id = u.id and t.status = 'open' where u.tenant_id = 5 group by u.id order by 3 desc, 1 limit 20
select count(*) from users u left join tickets t on t.assignee_id = u.id where t.id is null
select c.id, c.name from customers c left join orders o on o.customer_id = c.id where o.id is null and c.tenant_id = 2 order by c.id
select te.id, te.name, count(distinct u.id), count(distinct p.id) from tenants te left join users u on u.tenant_id = te.id left join projects p on p.tenant_id = te.id where te.id between 100 and 140 group by te.id order by te.id
select p.sku, p.name, coalesce(sum(i.qty),0) from products p left join order_items i on i.sku = p.sku where p.price > 980 group by p.sku order by 3 desc, 1
select ca.id, ca.name, pa.name, count(p.sku) from categories ca left join categories pa on pa.id = ca.parent_id left join products p on p.category_id = ca.id and p.active group by ca.id, ca.name, pa.name order by ca.id limit 100
select o.id, c.name, i.line_no, p.name from orders o left join customers c on c.id = o.customer_id and c.deleted_at is null left join order_items i on i.order_id = o.id left join products p on p.sku = i.sku where o.tenant_id = 70 order by o.id, i.line_no
select c.city, count(o.id) from customers c left join orders o on o.customer_id = c.id and o.status = 'cancelled' group by c.city order by 1
select t.status, u.role, count(*) from tickets t left join users u on u.id = t.assignee_id group by 1, 2 order by 1, 2
select u.id, max(e.occurred_at) from users u left join events e on e.user_id = u.id and e.kind = 'login' where u.tenant_id = 40 group by u.id order by u.id

-- [EXISTS / IN / NOT]
select count(*) from users u where exists (select 1 from tickets t where t.assignee_id = u.id and t.status = 'open')
select count(*) from users u where not exists (select 1 from tickets t where t.reporter_id = u.id)
select count(*) from users u where not exists (select 1 from events e where e.user_id = u.id and e.kind = 'login')
select id, email from users u where tenant_id = 3 and exists (select 1 from memberships m where m.user_id = u.id and m.role = 'owner') order by id
select count(*) from tickets t where exists (select 1 from comments c where c.ticket_id = t.id and c.is_internal)
select count(*) from tickets t where not exists (select 1 from comments c where c.ticket_id = t.id)
select count(*) from tickets t where t.tenant_id = 3 and not exists (select 1 from ticket_labels tl where tl.ticket_id = t.id)
select count(*) from customers where id in (select customer_id from orders where status = 'cancelled')
select count(*) from customers where id not in (select customer_id from orders where placed_at > '2023-01-01')
select count(*) from customers c where exists (select 1 from orders o where o.customer_id = c.id and o.total > 4900) or exists (select 1 from orders o where o.customer_id = c.id and o.status = 'new')
select count(*) from users u where exists (select 1 from tickets t where t.assignee_id = u.id and t.priority = 5) and not exists (select 1 from comments c where c.author_id = u.id and c.is_internal)
select count(*) from users u where u.score is null
select count(*) from products p where p.sku not in (select sku from order_items)
select count(*) from products p where not exists (select 1 from order_items i where i.sku = p.sku and i.qty > 4)
select id from projects p where not archived and not exists (select 1 from tickets t where t.project_id = p.id) order by id limit 10
select id, title from tickets where tenant_id = 2 and id in (select ticket_id from comments where author_id = 100) order by id
select id, title from tickets where id in (select ticket_id from ticket_labels where label_id in (3, 403, 803)) order by id limit 30
select count(*) from tickets where assignee_id in (select id from users where role = 'admin' and is_active)
select count(*) from tickets where assignee_id not in (select id from users where role = 'member')
select count(*) from tickets where reporter_id = any(select user_id from memberships where role = 'owner')
select o.id from orders o where o.tenant_id = 1 and exists (select 1 from order_items i join products p on p.sku = i.sku where i.order_id = o.id and p.category_id = 32) order by o.id
select count(*) from orders o where exists (select 1 from order_items i where i.order_id = o.id and i.discount > 0) and o.placed_at >= '2023-06-01'
select count(*) from users where id in (select assignee_id from tickets where tenant_id = 1 intersect select reporter_id from tickets where tenant_id = 1)
select count(*) from customers c where credit > (select avg(credit) from customers)
select count(*) from customers c where (select count(*) from orders o where o.customer_id = c.id) >= 5

-- [counts and distinct]
select count(*) from events
select count(*) from comments where deleted_at is null
select count(user_id) from events
select count(distinct user_id) from events
select count(distinct customer_id) from orders where tenant_id = 1
select count(distinct (tenant_id, kind)) from events
select distinct status from tickets
select distinct status from tickets order by status
select distinct tenant_id from orders order by 1
select distinct assignee_id from tickets where tenant_id = 4 order by 1
select distinct city, vip from customers order by 1, 2
select distinct u.country from users u join tickets t on t.reporter_id = u.id where t.status = 'blocked' order by 1
select distinct on (customer_id) customer_id, id, placed_at from orders where tenant_id = 3 order by customer_id, placed_at desc
select distinct on (ticket_id) ticket_id, id, body from comments where ticket_id between 500 and 900 order by ticket_id, created_at desc
select distinct on (kind) kind, id, occurred_at from events order by kind, occurred_at desc
select count(*) from (select distinct author_id from comments) s

-- [group by]
select status, count(*) from tickets group by status order by status
select tenant_id, count(*) from tickets where deleted_at is null group by tenant_id order by 2 desc limit 10
select tenant_id, status, count(*) from tickets group by 1, 2 having count(*) > 500 order by 3 desc, 1, 2
select assignee_id, count(*) from tickets where status = 'open' group by assignee_id order by 2 desc, 1 limit 10
select author_id, count(*) c from comments group by author_id having count(*) > 12 order by c desc, author_id
select customer_id, sum(total) from orders group by customer_id order by 2 desc limit 10
select customer_id, max(placed_at) from orders group by customer_id having max(placed_at) < '2022-01-01' order by 2, 1 limit 20
select sku, sum(qty) from order_items group by sku order by 2 desc, 1 limit 20
select sku, sum(qty * unit_price * (1 - coalesce(discount,0))) from order_items group by sku order by 2 desc limit 20
select kind, count(*), avg(duration_ms), min(duration_ms), max(duration_ms) from events group by kind order by kind
select user_id, kind, count(*) from events group by 1, 2 order by 3 desc, 1, 2 limit 20
select country, role, count(*), avg(score) from users group by country, role order by 1, 2
select city, vip, count(*), sum(credit), avg(credit) from customers group by 1, 2 order by 1, 2
select category_id, count(*), min(price), max(price) from products where active group by category_id order by 2 desc, 1 limit 20
select ticket_id, count(*), max(created_at) from comments where deleted_at is null group by ticket_id order by 2 desc, 1 limit 10
select ticket_id, min(created_at), max(created_at) from comments where ticket_id < 5000 group by ticket_id order by ticket_id
select order_id, count(*), sum(qty) from order_items group by order_id order by order_id limit 50

-- [filter aggregates, reports]
select count(*), count(*) filter (where status='open'), count(*) filter (where status='blocked'), count(*) filter (where priority = 5) from tickets where tenant_id = 1
select tenant_id, count(*) filter (where closed_at is null) as open, count(*) filter (where closed_at is not null) as closed, avg(estimate) from tickets group by tenant_id order by 2 desc, 1 limit 20
select sum(case when status = 'cancelled' then 1 else 0 end) as cancelled, sum(case when status='delivered' then total else 0 end) from orders
select date_trunc('month', placed_at) m, count(*), sum(total) from orders group by 1 order by 1
select date_trunc('day', placed_at) d, count(*), sum(total) from orders where placed_at >= '2023-06-01' and placed_at < '2023-09-01' group by 1 order by 1
select date_trunc('week', created_at) w, count(*) from tickets where tenant_id = 1 group by w order by w
select date_trunc('hour', occurred_at), kind, count(*) from events where occurred_at >= '2024-04-01' and occurred_at < '2024-04-08' group by 1, 2 order by 1, 2
select created_at::date d, count(*) from comments where created_at >= '2023-01-01' and created_at < '2023-04-01' group by d order by d
select to_char(placed_at, 'YYYY-MM') m, currency, sum(total) from orders group by 1, 2 order by 1, 2
select extract(dow from placed_at) d, count(*), avg(total) from orders group by 1 order by 1
select extract(year from created_at) y, extract(month from created_at) m, count(*) from users group by 1, 2 order by 1, 2
select avg(closed_at - created_at) from tickets where closed_at is not null
select priority, avg(extract(epoch from closed_at - created_at))/3600 from tickets where closed_at is not null group by priority order by 1
select width_bucket(total, 0, 5000, 10) b, count(*) from orders group by 1 order by 1
select floor(price/100)*100 b, count(*) from products group by 1 order by 1
select round(avg(total),2), stddev(total), min(total), max(total) from orders where tenant_id = 1
select bool_and(is_active), bool_or(deleted_at is null), count(*) from users where tenant_id = 2
select case when total < 100 then 'small' when total < 1000 then 'medium' else 'large' end as size, count(*), sum(total) from orders group by 1 order by 1
select coalesce(city, 'unknown') c, count(*) from customers group by 1 order by 2 desc, 1

-- [min max]
select max(id) from comments
select min(placed_at), max(placed_at) from orders
select max(created_at) from tickets where tenant_id = 1 and status = 'open'
select max(occurred_at) from events where user_id = 500
select min(price) from products where category_id = 12
select max(total) from orders where status = 'new'
select tenant_id, max(placed_at) from orders group by tenant_id order by tenant_id
select tenant_id, min(occurred_at), max(occurred_at) from events group by tenant_id order by tenant_id
select assignee_id, max(updated_at) from tickets group by assignee_id order by 2 desc limit 10

-- [top N per group]
select p.id, t.id, t.title from projects p cross join lateral (select id, title from tickets t where t.project_id = p.id order by number desc limit 3) t where p.tenant_id = 12 order by p.id, t.id
select u.id, c.id, c.created_at from users u join lateral (select id, created_at from comments c where c.author_id = u.id order by created_at desc limit 2) c on true where u.tenant_id = 6 order by u.id, c.id
select te.id, x.* from tenants te left join lateral (select o.id as oid, o.total from orders o where o.tenant_id = te.id order by o.placed_at desc limit 1) x on true order by te.id
select * from (select sku, category_id, price, row_number() over (partition by category_id order by price desc, sku) rn from products) s where rn <= 2 order by category_id, rn limit 50
select * from (select c.*, row_number() over (partition by ticket_id order by created_at desc) rn from comments c where ticket_id between 1000 and 1500) s where rn = 1 order by ticket_id

-- [like]
select id, email from users where email like 'user77%' order by id limit 50
select count(*) from users where email like '%corp.io'
select count(*) from users where email ilike '%CORP%'
select id, full_name from users where full_name like 'Ca%' order by full_name limit 20
select id, full_name from users where full_name ilike 'ca%' order by full_name limit 20
select count(*) from tickets where title like '%login%'
select count(*) from tickets where title ilike '%LOGIN%'
select id, title from tickets where tenant_id = 2 and title ilike '%export%' order by id limit 20
select count(*) from comments where body like '%abcd%'
select count(*) from comments where body ilike '%abcd%'
select sku, name from products where name like 'Red%' and active order by name limit 20
select sku, name from products where name ilike '%sofa 1%' order by name limit 20
select count(*) from customers where lower(email) = 'c100@shop.test'
select count(*) from customers where upper(name) like 'AB%'
select id, full_name from users where lower(full_name) like '%ab%' and tenant_id = 1 order by id limit 20
select count(*) from products where name ~ '^(Red|Blue) (chair|desk)'
select count(*) from tickets where title like 'Ticket 12_45%'
select count(*) from customers where name not like 'A%'

-- [coalesce / case / expressions]
select count(*) from tickets where coalesce(estimate, 0) > 20
select count(*) from tickets where coalesce(closed_at, updated_at) > '2024-03-01'
select id from tickets where coalesce(assignee_id, reporter_id) = 321 order by id
select count(*) from orders where case when currency = 'USD' then total * 0.9 else total end > 4500
select id, title from tickets where tenant_id = 8 order by case status when 'blocked' then 0 when 'open' then 1 else 2 end, priority desc, id limit 20
select count(*) from users where coalesce(last_login, created_at) >= now() - interval '20 years'
select count(*) from tickets where 77 = any(watchers)
select count(*) from tickets where watchers @> array[5]
select count(*) from tickets where cardinality(watchers) = 2 and watchers[1] < 10
select unnest(watchers) w, count(*) from tickets where tenant_id = 1 group by 1 order by 2 desc, 1 limit 10
select count(*) from orders where extract(year from placed_at) = 2023
select count(*) from orders where date_trunc('day', placed_at) = '2023-05-05'
select count(*) from orders where placed_at::date = date '2023-05-05'
select count(*) from comments where length(body) > 120
select substr(full_name, 1, 1), count(*) from users group by 1 order by 1
select split_part(email, '@', 2) d, count(*) from users group by 1 order by 2 desc, 1
select count(*) from customers where phone is not null and phone like '+491%'
select sum(qty * unit_price) from order_items
select sum(qty * unit_price * (1 - coalesce(discount, 0))) from order_items where order_id < 50000
select avg(weight), sum(weight), count(weight) from products
select sum(amount), avg(amount) from events where kind = 'purchase'

-- [set operations]
select id from users where role = 'admin' union select assignee_id from tickets where priority = 5 order by 1 limit 50
select id, title, created_at from tickets where assignee_id = 50 union all select id, title, created_at from tickets where reporter_id = 50 order by created_at desc limit 20
select user_id from events where kind = 'error' except select author_id from comments order by 1 limit 20
select count(*) from (select customer_id from orders where status = 'new' intersect select customer_id from orders where status = 'cancelled') s
select count(*) from (select assignee_id from tickets union select reporter_id from tickets) s
select 'tickets' k, count(*) from tickets where tenant_id = 3 union all select 'orders', count(*) from orders where tenant_id = 3 union all select 'users', count(*) from users where tenant_id = 3
select * from (select id, created_at, 'c' k from comments where author_id = 9 union all select id, created_at, 't' from tickets where reporter_id = 9) s order by created_at desc limit 20
select id from users where tenant_id = 2 except select user_id from memberships order by 1

-- [CTE and recursive]
with r as (select tenant_id, count(*) n from tickets where status = 'open' group by tenant_id) select te.name, r.n from r join tenants te on te.id = r.tenant_id order by r.n desc, te.name limit 10
with big as (select customer_id, sum(total) s from orders group by customer_id having sum(total) > 30000) select c.name, b.s from big b join customers c on c.id = b.customer_id order by b.s desc limit 20
with m as (select date_trunc('month', placed_at) m, sum(total) s from orders where tenant_id = 1 group by 1) select a.m, a.s, b.s from m a left join m b on b.m = a.m - interval '1 month' order by a.m
with recursive t as (select id, parent_id, name, 0 as d from categories where id = 3 union all select c.id, c.parent_id, c.name, t.d + 1 from categories c join t on c.parent_id = t.id) select count(*), max(d) from t
with recursive t as (select id, parent_id, 0 as d from categories where parent_id is null union all select c.id, c.parent_id, t.d + 1 from categories c join t on c.parent_id = t.id) select d, count(*) from t group by d order by d
with recursive up as (select id, parent_id, name from categories where id = 1150 union all select c.id, c.parent_id, c.name from categories c join up on c.id = up.parent_id) select * from up order by id
with recursive th as (select id, parent_id from comments where id = 4000 union all select c.id, c.parent_id from comments c join th on c.parent_id = th.id where c.id < 9000) select count(*) from th
with recursive t as (select id, parent_id from categories where id = 5 union all select c.id, c.parent_id from categories c join t on c.parent_id = t.id) select count(*), sum(p.price) from t join products p on p.category_id = t.id
with recursive d(x) as (select date '2023-01-01' union all select x + 1 from d where x < '2023-03-31') select d.x, count(o.id) from d left join orders o on o.placed_at >= d.x and o.placed_at < d.x + 1 group by d.x order by d.x
select g.d, count(o.id) from generate_series(timestamp '2023-01-01', timestamp '2023-03-31', interval '1 day') g(d) left join orders o on o.placed_at >= g.d and o.placed_at < g.d + interval '1 day' group by g.d order by g.d

-- [scalar subqueries in select]
select t.id, t.title, (select count(*) from comments c where c.ticket_id = t.id) from tickets t where t.tenant_id = 20 and t.status = 'open' order by t.id limit 30
select t.id, (select u.full_name from users u where u.id = t.assignee_id), (select max(c.created_at) from comments c where c.ticket_id = t.id) from tickets t where t.created_at > '2024-04-01' order by t.id limit 100
select p.id, p.name, (select count(*) from tickets t where t.project_id = p.id and t.closed_at is null) from projects p where p.tenant_id = 1 order by p.id limit 20
select p.id, p.name, (select count(*) from tickets t where t.project_id = p.id) n from projects p order by n desc, p.id limit 20
select c.id, c.name, (select sum(total) from orders o where o.customer_id = c.id) s, (select count(*) from orders o where o.customer_id = c.id) n from customers c where c.tenant_id = 30 order by c.id
select te.id, (select count(*) from users u where u.tenant_id = te.id), (select count(*) from projects p where p.tenant_id = te.id), (select count(*) from orders o where o.tenant_id = te.id) from tenants te order by te.id
select u.id, (select e.kind from events e where e.user_id = u.id order by e.occurred_at desc limit 1) from users u where u.tenant_id = 30 order by u.id
select o.* from orders o where o.total = (select max(x.total) from orders x where x.customer_id = o.customer_id) and o.tenant_id = 20 order by o.id
select c.* from comments c where c.created_at = (select max(x.created_at) from comments x where x.ticket_id = c.ticket_id) and c.ticket_id between 2000 and 2500 order by c.id
select p.id, p.name, (select max(t.created_at) from tickets t where t.project_id = p.id), (select u.full_name from users u where u.id = p.owner_id) from projects p order by p.name || 'x' limit 5

-- [string_agg / array_agg]
select t.id, string_agg(l.name, ', ' order by l.name) from tickets t join ticket_labels tl on tl.ticket_id = t.id join labels l on l.id = tl.label_id where t.tenant_id = 15 group by t.id order by t.id limit 50
select o.id, array_agg(i.sku order by i.line_no) from orders o join order_items i on i.order_id = o.id where o.tenant_id = 80 group by o.id order by o.id
select country, string_agg(distinct role, ',' order by role) from users group by country order by country
select tenant_id, array_agg(id order by id) from projects where tenant_id > 300 group by tenant_id order by tenant_id
select p.id, coalesce(array_agg(m.user_id order by m.user_id) filter (where m.role = 'owner'), array[]::bigint[]) from projects p left join memberships m on m.project_id = p.id where p.tenant_id = 20 group by p.id order by p.id

-- [whole results, sorts]
select * from products order by sku
select id, email, full_name from users order by email
select * from tenants order by created_at desc
select id, total from orders order by total desc, id limit 100
select id, customer_id, total, placed_at from orders where tenant_id = 1 order by total desc, id
select id, title, created_at from tickets where tenant_id = 1 order by title limit 50
select id, body from comments order by length(body) desc, id limit 10
select * from order_items where qty = 3 and discount is not null order by unit_price desc, order_id, line_no limit 20
select id, name, credit from customers order by credit desc nulls last, id limit 20
select * from customers where tenant_id = 1 order by name, id

-- [long IN lists]
select id, title, status from tickets where id in (1,{int 578 287924*499}) order by id
select ticket_id, count(*) from comments where ticket_id in (1,{int 578 287924*499}) group by ticket_id order by 1
select * from ticket_labels where ticket_id in (1,{int 578 287924*499}) order by 1, 2
select sku, price from products where sku in ('SKU-000001','SKU-000102','SKU-000203','SKU-000304','SKU-000405','SKU-000506','SKU-000607','SKU-000708','SKU-000809','SKU-000910','SKU-001011','SKU-001112','SKU-001213','SKU-001314','SKU-001415','SKU-001516','SKU-001617','SKU-001718','SKU-001819','SKU-001920','SKU-002021','SKU-002122','SKU-002223','SKU-002324','SKU-002425','SKU-002526','SKU-002627','SKU-002728','SKU-002829','SKU-002930','SKU-003031','SKU-003132','SKU-003233','SKU-003334','SKU-003435','SKU-003536','SKU-003637','SKU-003738','SKU-003839','SKU-003940') order by sku
select sku, sum(qty) from order_items where sku in ('SKU-000001','SKU-000102','SKU-000203','SKU-000304','SKU-000405','SKU-000506','SKU-000607','SKU-000708','SKU-000809','SKU-000910','SKU-001011','SKU-001112','SKU-001213','SKU-001314','SKU-001415','SKU-001516','SKU-001617','SKU-001718','SKU-001819','SKU-001920','SKU-002021','SKU-002122','SKU-002223','SKU-002324','SKU-002425','SKU-002526','SKU-002627','SKU-002728','SKU-002829','SKU-002930','SKU-003031','SKU-003132','SKU-003233','SKU-003334','SKU-003435','SKU-003536','SKU-003637','SKU-003738','SKU-003839','SKU-003940') group by sku order by sku
select id, email from users where tenant_id = 1 and email in ('user1@mail.test','user5@mail.test','user9@mail.test','user13@mail.test','user17@mail.test','user21@mail.test','user25@mail.test','user29@mail.test','user33@mail.test','user37@mail.test','user41@mail.test','user45@mail.test','user49@mail.test','user53@mail.test','user57@mail.test','user61@mail.test','user65@mail.test','user69@mail.test','user73@mail.test','user77@mail.test','user81@mail.test','user85@mail.test','user89@mail.test','user93@mail.test','user97@mail.test','user101@mail.test','user105@mail.test','user109@mail.test','user113@mail.test','user117@mail.test','user121@mail.test','user125@mail.test','user129@mail.test','user133@mail.test','user137@mail.test','user141@mail.test','user145@mail.test','user149@mail.test','user153@mail.test','user157@mail.test') order by id
select count(*), max(created_at) from comments where author_id in (1,{int 38 55464*1499})
select count(*) from tickets where reporter_id in (1,{int 38 55464*1499}) and status <> 'closed'
select * from users where id = any({int 1 287924[500]}::bigint[]) order by id
select u.id, u.full_name from users u join (values (1),(38),(75),(112),(149),(186),(223),(260),(297),(334),(371),(408),(445),(482),(519),(556),(593),(630),(667),(704),(741),(778),(815),(852),(889),(926),(963),(1000),(1037),(1074),(1111),(1148),(1185),(1222),(1259),(1296),(1333),(1370),(1407),(1444),(1481),(1518),(1555),(1592),(1629),(1666),(1703),(1740),(1777),(1814),(1851),(1888),(1925),(1962),(1999),(2036),(2073),(2110),(2147),(2184)) v(x) on v.x = u.id order by u.id
select id, name from projects where id in (md5('p1')::uuid,md5('p2')::uuid,md5('p3')::uuid,md5('p4')::uuid,md5('p5')::uuid,md5('p6')::uuid,md5('p7')::uuid,md5('p8')::uuid,md5('p9')::uuid,md5('p10')::uuid,md5('p11')::uuid,md5('p12')::uuid,md5('p13')::uuid,md5('p14')::uuid,md5('p15')::uuid,md5('p16')::uuid,md5('p17')::uuid,md5('p18')::uuid,md5('p19')::uuid,md5('p20')::uuid,md5('p21')::uuid,md5('p22')::uuid,md5('p23')::uuid,md5('p24')::uuid,md5('p25')::uuid,md5('p26')::uuid,md5('p27')::uuid,md5('p28')::uuid,md5('p29')::uuid,md5('p30')::uuid,md5('p31')::uuid,md5('p32')::uuid,md5('p33')::uuid,md5('p34')::uuid,md5('p35')::uuid,md5('p36')::uuid,md5('p37')::uuid,md5('p38')::uuid,md5('p39')::uuid,md5('p40')::uuid) order by id
select count(*) from users where id not in (1,{int 38 55464*1499})

-- [edges]
select count(*) from customers where city = 'Berlin' and vip = true
select count(*) from customers where city = 'Berlin' and not vip
select count(*) from customers where city = 'Berlin' and vip is true
select count(*) from products where active
select count(*) from products where active = true
select count(*), sum(total) from orders where placed_at >= '2022-05-01' and placed_at < '2022-05-08'
select count(*), sum(total) from orders where placed_at > '2023-12-01'
select count(*), sum(total) from orders where placed_at < '2021-07-01'
select count(*), sum(total) from orders where placed_at between '2022-05-01' and '2022-08-01'
select count(*) from orders where placed_at between '2022-05-01' and '2022-08-01'
select count(*) from events where occurred_at between '2024-03-01' and '2024-03-20'
select count(*) from events where kind = 'view' and occurred_at between '2024-03-01' and '2024-03-20'
select kind, count(*) from events where occurred_at >= '2024-03-01' and occurred_at < '2024-03-03' group by kind order by 1
select id, kind, occurred_at from events where kind = 'error' and occurred_at >= '2024-03-01' and occurred_at < '2024-03-08' order by occurred_at
select id, tenant_id from events where kind = 'login' and occurred_at >= '2024-03-01' order by occurred_at desc limit 20
select tenant_id, count(*) from events where kind in ('login','error') and occurred_at >= '2024-03-01' and occurred_at < '2024-03-15' group by 1 order by 2 desc, 1
select count(*), avg(duration_ms) from events where tenant_id = 1 and occurred_at >= '2024-02-01' and occurred_at < '2024-02-20'
select count(*), avg(duration_ms) from events where tenant_id = 5 and kind = 'view' and occurred_at >= '2024-02-01'
select count(*), avg(duration_ms) from events where user_id = 77 and occurred_at >= '2024-02-01'
select count(*) from comments where created_at >= '2023-03-01' and created_at < '2023-03-10' and is_internal
select count(*) from comments where author_id between 100 and 200 and created_at > '2023-06-01'
select count(*), sum(credit) from customers where created_at >= '2022-03-01' and created_at < '2022-04-01'
select count(*) from customers where created_at >= '2022-03-01' and created_at < '2022-03-08'
select id, name from customers where created_at >= '2022-03-01' and created_at < '2022-03-02' order by created_at
select count(*) from users where role = 'admin'
select count(*), max(full_name) from users where role = 'agent'
select id from users where role = 'admin' and country = 'FR' order by id
select count(*) from users where email = 'user777@mail.test'
select * from users where email = 'user777@mail.test'
select count(*) from users where email like 'user7%'
select count(*) from users where email like '%@gmail.test' and is_active
select count(*) from projects where key = 'PRJ100'
select id, name from projects where key like 'PRJ10%' order by key
select count(*) from tickets where number = 777
select * from tickets where number between 1000 and 1100 order by number
select count(*) from ticket_labels where label_id = 3
select count(*) from tickets where priority = 5
select count(*) from tickets where priority = 5 and created_at >= '2023-01-01' and created_at < '2023-03-01'
select id, title from tickets where priority >= 4 and status = 'open' order by created_at desc limit 20
select id, title from tickets where status = 'open' order by priority desc, created_at limit 20
select id, title from tickets where status = 'open' order by priority desc, created_at limit 20 offset 2000
select id, title from tickets where status <> 'closed' order by created_at desc limit 20
select id, title from tickets where status in ('open','review') order by updated_at desc limit 20
select id, title from tickets where tenant_id = 1 order by updated_at desc limit 20
select id, title from tickets where tenant_id = 1 order by updated_at desc limit 20 offset 1000
select id, title from tickets where tenant_id = 2 order by created_at desc limit 20 offset 1000
select id, title from tickets where tenant_id = 1 and status = 'closed' order by created_at desc limit 20 offset 10000
select id, title from tickets where tenant_id in (1,2,3) order by created_at desc limit 20
select id, title from tickets where priority = 5 order by created_at desc limit 20
select id, title from tickets where assignee_id is not null and status = 'review' order by created_at desc limit 20
select id, total from orders where tenant_id = 1 order by placed_at desc limit 20 offset 5000
select id, total from orders where status = 'delivered' order by placed_at desc limit 20 offset 20000
select id, total from orders order by placed_at desc limit 50 offset 50000
select id, total from orders order by total limit 50 offset 50000
select id, name from customers order by name limit 20
select id, name from customers order by name limit 20 offset 20000
select id, name from customers where tenant_id = 1 order by name limit 20
select id, email from users where tenant_id = 1 order by email limit 20
select id, email from users where tenant_id = 1 order by full_name limit 20 offset 100
select * from comments order by created_at desc limit 50 offset 20000
select * from comments where is_internal order by created_at desc limit 50
select * from comments where deleted_at is null and author_id in (5,6,7,8) order by created_at desc limit 20
select * from tickets order by priority, id limit 20
select id, priority from tickets order by priority desc, id limit 20
select id, body from comments order by body limit 10
select * from events order by amount desc nulls last, id limit 10
select * from events order by duration_ms desc nulls last, id limit 10
select * from order_items order by unit_price desc, order_id limit 10
select * from orders order by currency, total desc limit 10
select count(*) from users u where exists (select 1 from tickets t where t.assignee_id = u.id and t.status = 'review')
select count(*) from users u where exists (select 1 from tickets t where t.assignee_id = u.id)
select count(*) from users u where not exists (select 1 from tickets t where t.assignee_id = u.id and t.status = 'open')
select count(*) from users u where u.id in (select author_id from comments where created_at > '2024-04-01')
select u.id, u.email from users u where u.tenant_id = 4 and exists (select 1 from tickets t where t.assignee_id = u.id and t.status <> 'closed') order by u.id
select count(*) from projects p where exists (select 1 from tickets t where t.project_id = p.id and t.status = 'blocked')
select count(*) from projects p where exists (select 1 from memberships m where m.project_id = p.id and m.role = 'owner') and exists (select 1 from tickets t where t.project_id = p.id and t.priority = 5)
select count(*) from customers c where exists (select 1 from orders o where o.customer_id = c.id and o.status = 'cancelled' and o.total > 4000)
select count(*) from customers c where exists (select 1 from orders o where o.customer_id = c.id and o.status = 'new') or c.vip
select count(*) from customers c where c.vip or c.id in (select customer_id from orders where total > 4950)
select count(*) from users u where u.role = 'admin' or exists (select 1 from memberships m where m.user_id = u.id and m.role = 'owner')
select count(*) from tickets t where t.assignee_id = 5 or exists (select 1 from ticket_labels l where l.ticket_id = t.id and l.label_id = 3)
select t.id from tickets t where t.tenant_id = 3 and (exists (select 1 from comments c where c.ticket_id = t.id and c.author_id = 55) or t.reporter_id = 55) order by id
select count(*) from tickets t where exists (select 1 from comments c where c.ticket_id = t.id and c.deleted_at is not null)
select count(*) from orders o where exists (select 1 from order_items i where i.order_id = o.id and i.qty = 5 and i.sku = 'SKU-000010')
select o.id from orders o where o.tenant_id = 4 and exists (select 1 from order_items i join products p on p.sku = i.sku where i.order_id = o.id and p.active = false) order by o.id
select o.id from orders o where o.status = 'new' and not exists (select 1 from order_items i join products p on p.sku = i.sku where i.order_id = o.id and p.stock = 0) order by o.id
select id, title from tickets where id in (select ticket_id from ticket_labels where label_id = 5) order by id limit 30
select id, title from tickets where id in (select ticket_id from ticket_labels where label_id = 5) order by id desc limit 30
select distinct t.id, t.title from tickets t join ticket_labels tl on tl.ticket_id = t.id where tl.label_id in (3,403,803) order by t.id limit 30
select t.* from tickets t inner join comments c on c.ticket_id = t.id where c.author_id = 77 and c.deleted_at is null order by t.created_at desc limit 10
select sku, name from products p where exists (select 1 from order_items i where i.sku = p.sku and i.discount is not null) order by price limit 20
select sku, name from products p where exists (select 1 from order_items i where i.sku = p.sku and i.discount is not null) order by price limit 20
select assignee_id, count(*) from tickets where status = 'closed' group by assignee_id order by 2 desc, 1 limit 10
select assignee_id, status, count(*) from tickets group by 1, 2 order by 3 desc, 1, 2 limit 10
select tenant_id, status, count(*) from tickets group by tenant_id, status order by 1, 2
select tenant_id, count(*) from events group by tenant_id order by 2 desc limit 10
select user_id, count(*) from events group by user_id order by 2 desc, 1 limit 10
select status, currency, count(*), sum(total) from orders group by 1, 2 order by 1, 2
select customer_id, count(*) from orders group by customer_id order by 2 desc, 1 limit 10
select reporter_id, count(*) from tickets group by reporter_id having count(*) > 8 order by 2 desc, 1
select to_char(created_at, 'YYYY-MM-DD') d, count(*) from tickets where tenant_id = 2 group by 1 order by 1
select to_char(occurred_at, 'HH24') h, count(*) from events group by 1 order by 1
select placed_at::date d, sum(total) from orders group by 1 order by 1 desc limit 30
select date_trunc('day', occurred_at) d, count(*) from events group by 1 order by 1
select count(*) from events where entity like 'ticket:12%'
select count(*) from events where entity is not null
select count(*) from events where entity = 'ticket:1233'
select count(*) from tickets where title ilike 'ticket 99%'
select count(*) from users where full_name like '%a'
select count(*) from users where full_name like '%ab%'
select count(*) from users where full_name <> 'x'
select count(*) from customers where name like '%ab%'
select count(*) from customers where email like '%9@shop.test'
select count(*) from customers where phone like '%77'
select count(*) from products where name like '%lamp%'
select count(*) from customers where city <> 'Berlin'
select count(*) from customers where city is null
select city, count(*) from customers group by city order by city
select count(*) from orders where total > 4800 or placed_at < '2021-07-10'
select count(*) from tickets where assignee_id between 5 and 10 or reporter_id between 5 and 10
select count(*) from users where full_name like 'Ab%' or username like 'u_ab%' or email like 'user55%'
select count(*) from tickets where assignee_id in (select id from users where tenant_id = 9)
select count(*) from tickets where reporter_id in (select id from users where role = 'admin')
select max(total) from orders where status = 'paid'
select min(created_at), max(created_at) from tickets where tenant_id = 7
select max(updated_at) from tickets where tenant_id = 1
select max(created_at) from comments where author_id in (1,2,3)
select max(price) from products where active
select * from tenants order by name
select * from tenants
select * from labels where tenant_id = 5 order by name
select * from categories order by id
select id, parent_id, name from categories order by parent_id nulls first, position, id
select * from users where tenant_id = 2
select * from tickets where tenant_id = 2 and status <> 'closed'
select * from comments where author_id between 1 and 40 order by id
select * from orders where tenant_id = 10 order by id
select e.id, e.kind, u.email from events e left join users u on u.id = e.user_id where e.tenant_id = 100 order by e.occurred_at desc limit 100
select e.id, e.kind, u.email from events e left join users u on u.id = e.user_id where e.occurred_at >= '2024-05-01' and e.occurred_at < '2024-05-02' order by e.occurred_at
select o.id, o.total, c.name from orders o join customers c on c.id = o.customer_id where o.placed_at >= '2023-05-01' and o.placed_at < '2023-06-01' and c.city = 'Berlin' order by o.placed_at
select c.id, count(o.id), sum(o.total) from customers c left join orders o on o.customer_id = c.id and o.placed_at >= '2023-01-01' where c.tenant_id = 1 group by c.id order by 3 desc nulls last, 1 limit 20
select date_trunc('month', o.placed_at) m, sum(i.qty * i.unit_price) from orders o join order_items i on i.order_id = o.id where o.placed_at >= '2023-01-01' group by 1 order by 1
select p.category_id, sum(i.qty) from order_items i join products p on p.sku = i.sku join orders o on o.id = i.order_id where o.placed_at >= '2023-05-01' and o.placed_at < '2023-06-01' group by 1 order by 2 desc, 1 limit 10
select u.id, u.full_name, m.role, p.name from users u join memberships m on m.user_id = u.id join projects p on p.id = m.project_id where u.tenant_id = 1 order by u.id limit 20
select u.id, u.full_name, m.role from users u join memberships m on m.user_id = u.id where u.tenant_id = 1 order by u.id, m.role limit 20
select t.id, t.title, u.full_name from tickets t left join users u on u.id = t.assignee_id where t.tenant_id = 1 order by t.created_at desc, t.id desc limit 25
select t.id, t.title, u.full_name from tickets t left join users u on u.id = t.assignee_id where t.status <> 'closed' order by t.priority desc, t.created_at limit 25
select l.name, count(*) from labels l join ticket_labels tl on tl.label_id = l.id join tickets t on t.id = tl.ticket_id where t.tenant_id = 3 group by l.name order by 2 desc, 1
select t.id, array_agg(tl.label_id order by tl.label_id) from tickets t left join ticket_labels tl on tl.ticket_id = t.id where t.id between 1000 and 1100 group by t.id order by t.id
select t.id, string_agg(l.name, ',' order by l.name) from tickets t join ticket_labels tl on tl.ticket_id = t.id join labels l on l.id = tl.label_id where t.tenant_id = 1 and t.status = 'open' group by t.id order by t.id limit 20
select count(*) from memberships m join users u on u.id = m.user_id where u.tenant_id = 1 and m.role = 'owner'
select count(*) from order_items where sku = 'SKU-000010'
select count(*), sum(qty) from order_items where sku = 'SKU-000001'
select order_id, qty from order_items where sku = 'SKU-000010' order by order_id desc limit 20
select count(*), sum(qty), avg(unit_price) from order_items where order_id < 20000 and qty > 3
select count(*) from products p where p.sku not in (select sku from order_items where order_id < 500)
select p.id from (select id, tenant_id, name from projects where tenant_id = 1) p where p.id not in (select project_id from tickets where tenant_id = 1) order by 1
select sku, name, price from products where active order by price desc limit 30

-- [edges of orders and groups]
select count(*) from tickets where status = 'closed' and due_on = '2023-05-05'
select count(*), sum(estimate) from tickets where status = 'closed'
select id, title from tickets where status = 'closed' and created_at >= '2023-01-01' and created_at < '2023-01-15' order by id
select count(*) from tickets where status = 'closed' and created_at >= '2023-01-01' and created_at < '2023-03-01'
select tenant_id, count(*) from tickets where status = 'open' and created_at >= '2023-01-01' and created_at < '2023-06-01' group by 1 order by 1
select sum(total) from orders where status = 'delivered' and placed_at >= '2022-05-01' and placed_at < '2022-06-01'
select sum(total) from orders where tenant_id = 1 and placed_at >= '2022-05-01' and placed_at < '2022-09-01'
select sum(total) from orders where tenant_id = 4 and status = 'delivered' and placed_at >= '2022-05-01' and placed_at < '2022-09-01'
select o.id, c.name from orders o join customers c on c.id = o.customer_id where o.status = 'cancelled' and o.placed_at >= '2022-05-01' and o.placed_at < '2022-06-01' order by o.placed_at
select count(*) from events where tenant_id = 2 and kind = 'purchase' and occurred_at >= '2024-02-01' and occurred_at < '2024-03-01'
select tenant_id, sum(amount) from events where kind = 'purchase' and occurred_at >= '2024-02-01' and occurred_at < '2024-03-01' group by tenant_id order by 2 desc limit 10
select date_trunc('day', occurred_at), count(*) from events where kind = 'login' and occurred_at >= '2024-02-01' and occurred_at < '2024-03-01' group by 1 order by 1
select count(distinct user_id) from events where occurred_at >= '2024-02-01' and occurred_at < '2024-02-08'
select count(*) from comments where author_id = 77 and created_at >= '2023-01-01'
select count(*) from comments where created_at >= '2023-05-01' and created_at < '2023-05-08' and deleted_at is null
select count(*) from comments c join users u on u.id = c.author_id where c.created_at >= '2023-05-01' and c.created_at < '2023-06-01' and u.role = 'admin'
select u.role, count(*) from comments c join users u on u.id = c.author_id where c.created_at >= '2023-05-01' and c.created_at < '2023-06-01' group by u.role order by 1
select count(*) from customers where created_at >= '2022-01-01' and created_at < '2022-02-01' and vip
select city, count(*) from customers where created_at >= '2022-01-01' group by city order by 1
select count(*) from customers where vip
select count(*) from products where price < 50 and category_id between 1 and 400
select category_id, avg(price) from products where price between 100 and 120 group by 1 order by 1
select min(created_at) from tickets where assignee_id = 1
select max(updated_at) from tickets where status = 'open'
select max(created_at) from users where is_active
select max(placed_at) from orders where status <> 'cancelled'
select max(id) from orders where status = 'delivered'
select min(id) from comments where is_internal
select max(created_at) from tickets where deleted_at is null
select min(total) from orders where currency = 'USD'
select * from orders where currency = 'USD' order by total desc limit 10
select * from orders where status = 'delivered' order by total desc limit 10
select * from orders where tenant_id = 1 order by total desc limit 10
select * from products where active and category_id < 600 order by price desc limit 10
select * from tickets where status = 'closed' order by updated_at desc, id desc limit 20
select * from tickets where tenant_id = 1 and status in ('open','closed') order by created_at desc limit 20
select * from tickets where deleted_at is null and priority >= 3 order by updated_at desc, id desc limit 20
select id from tickets where status = 'closed' order by created_at desc limit 20
select * from users where deleted_at is null order by created_at desc limit 20 offset 10000
select * from customers where deleted_at is null order by credit desc limit 20 offset 5000
select t.* from tickets t join users u on u.id = t.assignee_id where u.role = 'admin' order by t.created_at desc limit 20
select t.* from tickets t join tenants te on te.id = t.tenant_id where te.plan = 'enterprise' order by t.created_at desc limit 20
select c.* from comments c join tickets t on t.id = c.ticket_id where t.tenant_id = 1 order by c.created_at desc limit 20
select o.*, c.name from orders o join customers c on c.id = o.customer_id where c.vip order by o.placed_at desc limit 20
select count(*) from users u where u.tenant_id = 1 and (u.role = 'admin' or exists (select 1 from memberships m where m.user_id = u.id and m.role = 'owner'))
select count(*) from tickets t where t.tenant_id = 2 and (t.assignee_id is null or not exists (select 1 from comments c where c.ticket_id = t.id))
select u.id, exists (select 1 from memberships m where m.user_id = u.id and m.role = 'owner') from users u where u.tenant_id = 1 order by u.id
select p.id, exists (select 1 from tickets t where t.project_id = p.id and t.status = 'blocked') from projects p order by p.id
select case when exists (select 1 from orders o where o.customer_id = c.id) then 'buyer' else 'lead' end k, count(*) from customers c group by 1 order by 1
select count(*) from customers c where not exists (select 1 from orders o where o.customer_id = c.id and o.status = 'cancelled') and not c.vip
select count(*) from users where id not in (select assignee_id from tickets where assignee_id is not null)
select count(*) from users where username like '%ab%' or email like '%ab%'
select count(*) from users where lower(username) like 'u_a%'
select count(*) from users where length(full_name) > 14

-- [edges of joins]
select count(*) from tickets where status = 'closed' and reporter_id = 555
select count(*) from tickets where status = 'closed' and number = 777
select * from tickets where status = 'closed' and due_on = '2023-05-05' order by id limit 20
select id from tickets where status = 'closed' and due_on between '2023-05-05' and '2023-05-07' order by id
select id from tickets where status = 'open' and due_on = '2023-05-05'
select id from tickets where status <> 'closed' and due_on = '2023-05-05' order by id
select id from tickets where status in ('closed','open') and due_on = '2023-05-05' order by id
select count(*) from tickets where status = 'closed' and updated_at between '2023-01-01' and '2023-01-03'
select count(*) from tickets where status = 'closed' and assignee_id = 77
select count(*) from tickets where status = 'closed' and assignee_id between 50 and 60
select t.id, u.email from tickets t join users u on u.id = t.reporter_id where t.status = 'closed' and t.due_on = '2023-05-05' order by t.id
select count(*) from users where role = 'member' and country = 'DE'
select count(*) from users where role = 'member' and last_login > '2024-05-30'
select count(*) from users where role = 'member' and full_name like 'Ab%'
select count(*) from users where role = 'member' and created_at > '2023-11-01'
select count(*) from customers where vip and credit between 5000 and 5100
select count(*) from customers where vip = true and created_at > '2023-08-01'
select count(*) from customers where vip = false and credit between 5000 and 5100
select count(*) from products where price = 50 and active
select count(*) from products where price between 50 and 60 and name like 'Red%'
select count(*) from orders where placed_at >= '2022-05-01' and placed_at < '2022-05-08' and total > 4000
select count(*) from orders where total > 4950 and placed_at >= '2022-05-01' and placed_at < '2022-12-08'
select count(*) from ticket_labels where label_id = 3 and ticket_id < 5000
select count(*) from memberships where user_id = 77 and role = 'dev'
select count(*) from events where occurred_at >= '2024-02-01' and occurred_at < '2024-02-02' and kind = 'view' and tenant_id = 1
select * from events where user_id = 77 and kind = 'view' order by occurred_at desc limit 10
select * from events where user_id = 77 and occurred_at >= '2024-02-01' and occurred_at < '2024-06-01' order by occurred_at

-- [changes] (writes)
update users set last_login = '2024-06-02' where id = 777
update tickets set status = 'open', updated_at = now() where id = 5000 returning id, status
update tickets set status = 'closed', closed_at = now() where tenant_id = 50 and status = 'open'
update tickets set priority = priority + 1 where project_id = md5('p100')::uuid
update products set stock = stock - 1 where sku in ('SKU-000001','SKU-000100','SKU-001000') returning sku, stock
update products set price = price * 1.05 where category_id = 40
update products set stock = stock + 10
update customers set vip = true where credit > 19000
update customers set credit = credit + 1 where tenant_id = 1
update orders set status = 'shipped', shipped_at = now() where status = 'paid' and placed_at < '2024-01-10'
update orders o set total = s.t from (select order_id, sum(qty*unit_price) t from order_items where order_id between 1000 and 3000 group by order_id) s where s.order_id = o.id
update orders set note = 'x' where id between 1000 and 9000
update order_items set qty = qty + 1 where order_id between 1000 and 5000
update comments set deleted_at = now() where author_id = 700
update comments set body = body || '!' where ticket_id between 5000 and 6000
update events set amount = 0 where kind = 'error' and occurred_at < '2024-02-01'
update events set duration_ms = 1 where tenant_id = 5
update users u set score = score + 1 where exists (select 1 from tickets t where t.assignee_id = u.id and t.priority = 5)
update users set is_active = false where last_login < '2023-09-15'
update tickets set assignee_id = null where assignee_id in (select id from users where not is_active and tenant_id = 3)
delete from comments where id = 1000
delete from comments where ticket_id between 2000 and 2300
delete from ticket_labels where label_id = 403
delete from ticket_labels where ticket_id between 1000 and 10000
delete from order_items where order_id between 1000 and 5000
delete from order_items where order_id in (select id from orders where status = 'cancelled')
delete from memberships where user_id < 3000
delete from memberships m using users u where u.id = m.user_id and u.deleted_at is not null
delete from events where occurred_at < '2024-01-10'
delete from events where user_id is null
insert into labels values (5000, 1, 'new', 'ffffff') returning id
insert into labels values (5000, 1, 'bug', 'ffffff') on conflict do nothing
insert into labels values (5000, 2, 'bug', 'ffffff') on conflict (tenant_id, name) do update set color = excluded.color returning id
insert into comments select 1000000+g, 1 + g % (select count(*)::int from tickets), 1 + g % (select count(*)::int from users), null, 'hello', false, now(), null from generate_series(1,1000) g
insert into comments select 1000000+g, 1 + g % (select count(*)::int from tickets), 1 + g % (select count(*)::int from users), null, 'hello', false, now(), null from generate_series(1,20000) g
insert into events select 1000000+g, 1+g%400, 1+g%60000, 'view', null, '2025-01-01', 5, null from generate_series(1,20000) g
insert into events select 1000000+g, 1+g%400, 1+(g*7919)%60000, 'view', null, timestamp '2024-01-01' + (g*7919%200000) * interval '1 minute', 5, null from generate_series(1,20000) g
insert into order_items select id, 9, 'SKU-000200', 1, 5, null from orders where id between 1000 and 6000
insert into order_items select id, 1, 'SKU-000500', 1, 5, null from orders where id between 1000 and 3000 on conflict do nothing
insert into order_items select id, 1, 'SKU-000500', 1, 5, null from orders where id between 1000 and 3000 on conflict (order_id, line_no) do update set qty = order_items.qty + excluded.qty
insert into ticket_labels select id, 3 from tickets where tenant_id = 4 on conflict do nothing
insert into memberships values (md5('p1')::uuid, 1, 'dev', '2024-01-01') on conflict (project_id, user_id) do update set role = excluded.role
select id from orders where status = 'new' order by placed_at limit 10 for update skip locked
insert into products select 'N-'||g, 1 + g % (select count(*)::int from categories), 'n', 5, 1, true, null, now() from generate_series(1,2000) g
insert into users select 100000+g, 1 + g % (select count(*)::int from tenants), 'n'||g, 'n'||g, 'Full', 'member', true, 'DE', 1, now(), null, null from generate_series(1,3000) g

-- [windows and pictures] (ordered)
select * from (select id, project_id, number, row_number() over (partition by project_id order by number) r from tickets) x order by project_id, number limit 20
select * from (select id, created_at, row_number() over (order by id) r from tickets) x where r between 100 and 120 order by r
select * from (select id, status, row_number() over (order by placed_at desc, id) r from orders where tenant_id = 3) x where r <= 10 order by r
select * from (select id, rank() over (order by created_at) r from comments) x where r < 30 order by r, id
select id, priority, row_number() over (partition by tenant_id order by status, created_at desc, id) from tickets where tenant_id = 2 order by status, created_at desc, id limit 10
select to_char(placed_at, 'YYYY-MM') m, count(*), sum(total) from orders group by 1 order by 1
select id, to_char(created_at, 'DD.MM.YYYY HH24:MI'), to_char(priority, 'FM00') from tickets where id < 5000 order by id
