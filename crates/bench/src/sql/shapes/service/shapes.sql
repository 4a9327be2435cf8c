-- Shapes of statements that applications send: how object-relational mappers, query builders and people write
-- them. `-- [where it comes from] what it does` begins one; `(ordered)` says that the order of its rows counts,
-- `(writes)` that it is taken back afterwards. {…} is drawn anew for each run: see draw.rs.

-- [any] select a constant
SELECT 1

-- [django] get by primary key
SELECT id, org_id, email, name, status, country, manager_id, created_at, deleted_at, balance, logins FROM users WHERE users.id = {user} LIMIT 21

-- [django] get by unique column
SELECT id, org_id, email, name FROM users WHERE users.email = {email} LIMIT 21

-- [django] get what is not there
SELECT id, org_id, email, name FROM users WHERE users.email = {no_email} LIMIT 21

-- [django] exists
SELECT 1 AS a FROM tasks WHERE tasks.project_id = {project} LIMIT 1

-- [django] exists by two columns
SELECT 1 AS a FROM tasks WHERE (tasks.project_id = {project} AND tasks.state = {state}) LIMIT 1

-- [django] count of a filter by foreign key
SELECT COUNT(*) AS __count FROM tasks WHERE tasks.project_id = {project}

-- [django] count of a table
SELECT COUNT(*) AS __count FROM comments

-- [django] filter by foreign key, ordered, first page (ordered)
SELECT id, project_id, assignee_id, state, priority, title, due FROM tasks WHERE tasks.project_id = {project} ORDER BY tasks.created_at DESC, tasks.id DESC LIMIT 25

-- [django] paginator, tenth page (ordered)
SELECT id, project_id, state, title FROM tasks WHERE tasks.project_id = {hot_project} ORDER BY tasks.id ASC LIMIT 25 OFFSET 225

-- [django] paginator over a whole table (ordered)
SELECT id, project_id, state, title FROM tasks ORDER BY tasks.id ASC LIMIT 25 OFFSET {int 1000 50000}

-- [django] newest over a whole table (ordered)
SELECT id, project_id, state, title FROM tasks ORDER BY tasks.created_at DESC, tasks.id DESC LIMIT 25

-- [django] select related
SELECT t.id, t.title, p.id, p.name, o.id, o.name FROM tasks t INNER JOIN projects p ON (t.project_id = p.id) INNER JOIN orgs o ON (p.org_id = o.id) WHERE t.id = {task} LIMIT 21

-- [django] select related over a nullable key (ordered)
SELECT t.id, t.title, u.id, u.name FROM tasks t LEFT OUTER JOIN users u ON (t.assignee_id = u.id) WHERE t.project_id = {project} ORDER BY t.id ASC LIMIT 50

-- [django] prefetch related by IN
SELECT id, task_id, author_id, body, created_at FROM comments WHERE comments.task_id IN ({task*25})

-- [django] prefetch many to many
SELECT (tt.task_id) AS _prefetch_related_val_task_id, g.id, g.name FROM tags g INNER JOIN task_tags tt ON (g.id = tt.tag_id) WHERE tt.task_id IN ({task*25})

-- [django] filter across a join with DISTINCT
SELECT DISTINCT p.id, p.name FROM projects p INNER JOIN tasks t ON (p.id = t.project_id) WHERE (p.org_id = {org} AND t.state = {state})

-- [django] filter by a relation of a relation
SELECT t.id, t.title FROM tasks t INNER JOIN projects p ON (t.project_id = p.id) WHERE p.org_id = {org} AND t.state = 'blocked'

-- [django] annotate with count
SELECT p.id, p.name, COUNT(t.id) AS n FROM projects p LEFT OUTER JOIN tasks t ON (p.id = t.project_id) WHERE p.org_id = {org} GROUP BY p.id, p.name

-- [django] annotate with count and order by it (ordered)
SELECT p.id, p.name, COUNT(t.id) AS n FROM projects p LEFT OUTER JOIN tasks t ON (p.id = t.project_id) WHERE p.org_id = {org} GROUP BY p.id, p.name ORDER BY n DESC, p.id ASC LIMIT 5

-- [django] annotate with a subquery
SELECT p.id, p.name, (SELECT U0.title FROM tasks U0 WHERE U0.project_id = p.id ORDER BY U0.created_at DESC, U0.id DESC LIMIT 1) AS newest FROM projects p WHERE p.org_id = {org}

-- [django] annotate with exists
SELECT p.id, p.name, EXISTS(SELECT 1 AS a FROM tasks U0 WHERE (U0.project_id = p.id AND U0.state = 'blocked') LIMIT 1) AS is_blocked FROM projects p WHERE p.org_id = {org}

-- [django] exclude across a relation
SELECT p.id, p.name FROM projects p WHERE (p.org_id = {org} AND NOT (EXISTS(SELECT 1 AS a FROM tasks U1 WHERE (U1.state = 'blocked' AND U1.project_id = (p.id)) LIMIT 1)))

-- [django] filter by a subquery of keys
SELECT t.id, t.title FROM tasks t WHERE t.project_id IN (SELECT U0.id FROM projects U0 WHERE U0.owner_id = {user})

-- [django] Q objects: one or the other
SELECT id, email, name FROM users WHERE (users.id = {user} OR users.email = {email})

-- [django] Q objects: a range or NULL
SELECT COUNT(*) AS __count FROM tasks WHERE (tasks.project_id = {project} AND (tasks.due IS NULL OR tasks.due < {date}))

-- [django] Q objects: ranges of keys
SELECT id, title FROM tasks WHERE (tasks.id BETWEEN {a:task} AND {a:task} + 20 OR tasks.id BETWEEN {b:task} AND {b:task} + 20)

-- [django] icontains on a filtered set
SELECT id, title FROM tasks WHERE (tasks.project_id = {project} AND UPPER(tasks.title::text) LIKE UPPER({pattern}))

-- [django] icontains over a table
SELECT COUNT(*) AS __count FROM users WHERE UPPER(users.name::text) LIKE UPPER({pattern})

-- [django] startswith on a unique column
SELECT id, email FROM users WHERE users.email::text LIKE {email_prefix}

-- [django] dates: distinct months
SELECT DISTINCT date_trunc('month', orders.placed_at) AS d FROM orders WHERE orders.org_id = {org} AND orders.placed_at IS NOT NULL

-- [django] aggregate
SELECT SUM(orders.total) AS total__sum, AVG(orders.total) AS total__avg, MAX(orders.total) AS total__max FROM orders WHERE orders.org_id = {org}

-- [django] aggregate over a table
SELECT MIN(tasks.created_at), MAX(tasks.created_at) FROM tasks

-- [django] values list, distinct
SELECT DISTINCT users.country FROM users

-- [django] values with count
SELECT tasks.state, COUNT(tasks.id) AS n FROM tasks WHERE tasks.project_id = {hot_project} GROUP BY tasks.state

-- [django] admin changelist with search
SELECT id, email, name, status FROM users WHERE (org_id = {org} AND (UPPER(name::text) LIKE UPPER({pattern}) OR UPPER(email::text) LIKE UPPER({pattern}))) ORDER BY id DESC LIMIT 100

-- [django] update by key (writes)
UPDATE users SET name = {word}, logins = {int 0 1000} WHERE users.id = {user}

-- [django] update with F (writes)
UPDATE products SET stock = (products.stock - 1) WHERE products.id = {product}

-- [django] update by filter (writes)
UPDATE tasks SET state = 'done', version = (tasks.version + 1) WHERE (tasks.project_id = {project} AND tasks.state = 'blocked')

-- [django] update by keys (writes)
UPDATE tasks SET priority = {int 1 5} WHERE tasks.id IN ({task*25})

-- [django] bulk update (writes)
UPDATE tasks SET priority = CASE WHEN (tasks.id = {a:task}) THEN 1 WHEN (tasks.id = {b:task}) THEN 2 WHEN (tasks.id = {c:task}) THEN 3 ELSE NULL END::integer WHERE tasks.id IN ({a}, {b}, {c})

-- [django] create (writes)
INSERT INTO comments (id, task_id, author_id, body, created_at) VALUES ({new}, {task}, {user}, {word}, {time}) RETURNING comments.id

-- [django] bulk create, ignoring conflicts (writes)
INSERT INTO task_tags (task_id, tag_id) VALUES ({task}, {tag}), ({task}, {tag}), ({task}, {tag}), ({task}, {tag}) ON CONFLICT DO NOTHING

-- [django] delete by keys (writes)
DELETE FROM comments WHERE comments.id IN ({comment*25})

-- [django] delete by foreign keys (writes)
DELETE FROM comments WHERE comments.task_id IN ({task*10})

-- [django] select for update (writes)
SELECT id, stock FROM products WHERE products.id = {product} FOR UPDATE

-- [django] a tree, one level
SELECT id, parent_id, name FROM categories WHERE categories.parent_id = {category} ORDER BY categories.id ASC

-- [sqlalchemy] get
SELECT users.id AS users_id, users.email AS users_email, users.name AS users_name FROM users WHERE users.id = {user}

-- [sqlalchemy] selectin load
SELECT tasks.project_id AS tasks_project_id, tasks.id AS tasks_id, tasks.title AS tasks_title FROM tasks WHERE tasks.project_id IN ({project*10})

-- [sqlalchemy] selectin load by a composite key
SELECT order_lines.order_id, order_lines.line, order_lines.product_id, order_lines.quantity FROM order_lines WHERE (order_lines.order_id, order_lines.line) IN (({order}, 1), ({order}, 2), ({order}, 1), ({order}, 2), ({order}, 1), ({order}, 2), ({order}, 1), ({order}, 2))

-- [sqlalchemy] joined load under a limit (ordered)
SELECT anon_1.id AS anon_1_id, anon_1.name AS anon_1_name, t.id AS t_id, t.title AS t_title FROM (SELECT p.id AS id, p.name AS name FROM projects AS p WHERE p.org_id = {org} ORDER BY p.id LIMIT 3) AS anon_1 LEFT OUTER JOIN tasks AS t ON anon_1.id = t.project_id ORDER BY anon_1.id, t.id

-- [sqlalchemy] joined load of two levels
SELECT o.id, o.total, l.line, l.quantity, p.id, p.name FROM orders AS o LEFT OUTER JOIN order_lines AS l ON o.id = l.order_id LEFT OUTER JOIN products AS p ON p.id = l.product_id WHERE o.user_id = {user}

-- [sqlalchemy] keyset of two columns (ordered)
SELECT id, org_id, created_at, name FROM users WHERE org_id = {org} AND (created_at, id) > ({time}, {user}) ORDER BY created_at, id LIMIT 20

-- [sqlalchemy] keyset downwards (ordered)
SELECT id, placed_at, total FROM orders WHERE (org_id, placed_at) < ({org}, {time}) ORDER BY org_id DESC, placed_at DESC, id DESC LIMIT 20

-- [sqlalchemy] keyset on the primary key (ordered)
SELECT org_id, at, id, kind, amount FROM events WHERE (org_id, at, id) > ({org}, {time}, {int 1 100000}) ORDER BY org_id, at, id LIMIT 50

-- [sqlalchemy] any()
SELECT p.id, p.name FROM projects AS p WHERE p.org_id = {org} AND (EXISTS (SELECT 1 FROM tasks WHERE p.id = tasks.project_id AND tasks.priority = 5))

-- [sqlalchemy] not any()
SELECT u.id, u.email FROM users AS u WHERE u.org_id = {org} AND NOT (EXISTS (SELECT 1 FROM orders WHERE u.id = orders.user_id))

-- [sqlalchemy] anti-join by outer join
SELECT u.id, u.email FROM users AS u LEFT OUTER JOIN orders AS o ON o.user_id = u.id WHERE u.org_id = {org} AND o.id IS NULL

-- [sqlalchemy] aliased subquery joined
SELECT u.id, u.name, s.total FROM users AS u JOIN (SELECT orders.user_id AS user_id, sum(orders.total) AS total FROM orders WHERE orders.org_id = {org} GROUP BY orders.user_id) AS s ON u.id = s.user_id

-- [sqlalchemy] CTE joined by an index
WITH recent AS (SELECT o.id AS id, o.user_id AS user_id FROM orders AS o WHERE o.org_id = {org} ORDER BY o.placed_at DESC, o.id DESC LIMIT 10) SELECT recent.id, u.name, l.product_id FROM recent JOIN users AS u ON u.id = recent.user_id JOIN order_lines AS l ON l.order_id = recent.id

-- [sqlalchemy] union of two queries
SELECT id, title FROM tasks WHERE assignee_id = {user} UNION SELECT t.id, t.title FROM tasks t JOIN comments c ON c.task_id = t.id WHERE t.project_id = {project} AND c.author_id = {user}

-- [sqlalchemy] case in an aggregate
SELECT sum(CASE WHEN (tasks.state = 'open') THEN 1 ELSE 0 END) AS open, sum(CASE WHEN (tasks.state = 'done') THEN 1 ELSE 0 END) AS done FROM tasks WHERE tasks.project_id = {hot_project}

-- [sqlalchemy] insert many with returning (writes)
INSERT INTO tasks (id, project_id, assignee_id, state, priority, title, due, created_at, updated_at, version) VALUES ({new}, {project}, {user}, 'open', 3, {word}, NULL, {time}, {time}, 1), ({new}, {project}, NULL, 'open', 2, {word}, {date}, {time}, {time}, 1) RETURNING tasks.id, tasks.version

-- [sqlalchemy] optimistic update (writes)
UPDATE tasks SET title = {word}, version = version + 1 WHERE tasks.id = {task} AND tasks.version = 1

-- [sqlalchemy] update from another table (writes)
UPDATE tasks SET priority = 5 FROM projects WHERE projects.id = tasks.project_id AND projects.owner_id = {user} AND tasks.state = 'open'

-- [sqlalchemy] delete using another table (writes)
DELETE FROM task_tags USING tags WHERE tags.id = task_tags.tag_id AND tags.name = {tag_name} AND task_tags.task_id = {task}

-- [sqlalchemy] upsert (writes)
INSERT INTO settings (org_id, name, value) VALUES ({org}, {setting}, {word}) ON CONFLICT (org_id, name) DO UPDATE SET value = excluded.value RETURNING settings.value

-- [sqlalchemy] array parameter
SELECT id, title FROM tasks WHERE id = ANY ({task[50]})

-- [sqlalchemy] lateral: the newest three of each
SELECT p.id, x.id, x.title FROM projects AS p JOIN LATERAL (SELECT t.id, t.title FROM tasks AS t WHERE t.project_id = p.id ORDER BY t.created_at DESC, t.id DESC LIMIT 3) AS x ON true WHERE p.org_id = {org}

-- [activerecord] find
SELECT "users".* FROM "users" WHERE "users"."id" = {user} LIMIT 1

-- [activerecord] find by two columns
SELECT "settings".* FROM "settings" WHERE "settings"."org_id" = {org} AND "settings"."name" = {setting} LIMIT 1

-- [activerecord] default scope with soft delete (ordered)
SELECT "users".* FROM "users" WHERE "users"."deleted_at" IS NULL AND "users"."org_id" = {org} ORDER BY "users"."created_at" DESC, "users"."id" DESC LIMIT 20

-- [activerecord] the deleted ones
SELECT COUNT(*) FROM "users" WHERE "users"."deleted_at" IS NOT NULL

-- [activerecord] exists?
SELECT 1 AS one FROM "orders" WHERE "orders"."user_id" = {user} AND "orders"."status" = {order_status} LIMIT 1

-- [activerecord] eager load
SELECT "tasks"."id" AS t0_r0, "tasks"."title" AS t0_r1, "comments"."id" AS t1_r0, "comments"."body" AS t1_r1 FROM "tasks" LEFT OUTER JOIN "comments" ON "comments"."task_id" = "tasks"."id" WHERE "tasks"."project_id" = {project}

-- [activerecord] has many through
SELECT "tags".* FROM "tags" INNER JOIN "task_tags" ON "tags"."id" = "task_tags"."tag_id" WHERE "task_tags"."task_id" = {task}

-- [activerecord] all of several tags
SELECT "tasks"."id" FROM "tasks" INNER JOIN "task_tags" ON "task_tags"."task_id" = "tasks"."id" WHERE "task_tags"."tag_id" IN ({a:tag}, {b:tag}) GROUP BY "tasks"."id" HAVING COUNT(DISTINCT "task_tags"."tag_id") = 2

-- [activerecord] find in batches (ordered)
SELECT "comments".* FROM "comments" WHERE "comments"."id" > {comment} ORDER BY "comments"."id" ASC LIMIT 1000

-- [activerecord] group by day (ordered)
SELECT date_trunc('day', placed_at) AS day, COUNT(*) AS n, SUM(total) AS total FROM orders WHERE org_id = {org} AND placed_at >= {t:time} AND placed_at < {t} + interval '30 days' GROUP BY 1 ORDER BY 1

-- [activerecord] pluck with where in
SELECT "products"."id", "products"."price" FROM "products" WHERE "products"."sku" IN ({sku*20})

-- [activerecord] where not in
SELECT COUNT(*) FROM "tasks" WHERE "tasks"."project_id" = {project} AND "tasks"."state" NOT IN ('done', 'blocked')

-- [activerecord] increment counter (writes)
UPDATE "counters" SET "value" = COALESCE("value", 0) + 1 WHERE "counters"."name" = {counter}

-- [activerecord] touch (writes)
UPDATE "tasks" SET "updated_at" = {time} WHERE "tasks"."id" = {task}

-- [activerecord] update all under a limit (writes)
UPDATE "jobs" SET "state" = 'failed' WHERE "jobs"."id" IN (SELECT "jobs"."id" FROM "jobs" WHERE "jobs"."queue" = {queue} AND "jobs"."state" = 'ready' ORDER BY "jobs"."run_at" ASC, "jobs"."id" ASC LIMIT 5)

-- [activerecord] create (writes)
INSERT INTO "events" ("org_id", "at", "id", "kind", "user_id", "amount") VALUES ({org}, {time}, {new}, {kind}, {user}, {int 1 100}) RETURNING "id"

-- [activerecord] upsert all (writes)
INSERT INTO "settings" ("org_id", "name", "value") VALUES ({org}, 'theme', {word}), ({org}, 'language', {word}), ({org}, 'x1', {word}) ON CONFLICT ("org_id", "name") DO UPDATE SET "value" = excluded."value"

-- [activerecord] destroy (writes)
DELETE FROM "comments" WHERE "comments"."id" = {comment}

-- [activerecord] uniqueness validation
SELECT 1 AS one FROM "users" WHERE "users"."email" = {email} AND "users"."id" != {user} LIMIT 1

-- [prisma] find unique
SELECT "public"."users"."id", "public"."users"."email", "public"."users"."name" FROM "public"."users" WHERE ("public"."users"."id" = {user} AND 1=1) LIMIT 1 OFFSET 0

-- [prisma] find many with a relation filter: some
SELECT "public"."projects"."id", "public"."projects"."name" FROM "public"."projects" WHERE ("public"."projects"."org_id" = {org} AND ("public"."projects"."id") IN (SELECT "t1"."project_id" FROM "public"."tasks" AS "t1" WHERE ("t1"."state" = 'blocked' AND "t1"."project_id" IS NOT NULL))) OFFSET 0

-- [prisma] find many with a relation filter: none
SELECT "public"."projects"."id", "public"."projects"."name" FROM "public"."projects" WHERE ("public"."projects"."org_id" = {org} AND ("public"."projects"."id") NOT IN (SELECT "t1"."project_id" FROM "public"."tasks" AS "t1" WHERE ("t1"."state" = 'blocked' AND "t1"."project_id" IS NOT NULL))) OFFSET 0

-- [prisma] cursor (ordered)
SELECT "public"."comments"."id", "public"."comments"."body" FROM "public"."comments" WHERE "public"."comments"."id" >= (SELECT "public"."comments"."id" FROM "public"."comments" WHERE ("public"."comments"."id") = ({comment})) ORDER BY "public"."comments"."id" ASC LIMIT 20 OFFSET 1

-- [prisma] include by IN
SELECT "public"."order_lines"."order_id", "public"."order_lines"."line", "public"."order_lines"."quantity" FROM "public"."order_lines" WHERE "public"."order_lines"."order_id" IN ({order*20}) OFFSET 0

-- [prisma] relation join
SELECT "t0"."id", "t0"."name", "j"."n" FROM "public"."projects" AS "t0" LEFT JOIN LATERAL (SELECT COUNT(*) AS "n" FROM "public"."tasks" AS "t1" WHERE "t0"."id" = "t1"."project_id") AS "j" ON TRUE WHERE "t0"."org_id" = {org}

-- [prisma] order by relation count (ordered)
SELECT "u"."id", "u"."name" FROM "public"."users" AS "u" LEFT JOIN (SELECT "o"."user_id", COUNT(*) AS "n" FROM "public"."orders" AS "o" WHERE 1=1 GROUP BY "o"."user_id") AS "c" ON ("u"."id" = "c"."user_id") WHERE "u"."org_id" = {org} ORDER BY COALESCE("c"."n", 0) DESC, "u"."id" ASC LIMIT 10 OFFSET 0

-- [prisma] count under a limit
SELECT COUNT(*) FROM (SELECT "public"."tasks"."id" FROM "public"."tasks" WHERE "public"."tasks"."state" = {state} OFFSET 0) AS "sub"

-- [prisma] insensitive contains
SELECT "public"."products"."id", "public"."products"."name" FROM "public"."products" WHERE "public"."products"."name" ILIKE {pattern} ORDER BY "public"."products"."id" ASC LIMIT 20 OFFSET 0

-- [prisma] update (writes)
UPDATE "public"."products" SET "stock" = ("public"."products"."stock" + {int 1 10}), "price" = {price} WHERE ("public"."products"."id" = {product} AND 1=1) RETURNING "public"."products"."id", "public"."products"."stock"

-- [prisma] delete many (writes)
DELETE FROM "public"."comments" WHERE ("public"."comments"."task_id" = {task} AND "public"."comments"."author_id" = {user})

-- [hibernate] fetch join
select o1_0.id, o1_0.status, o1_0.total, l1_0.order_id, l1_0.line, l1_0.quantity from orders o1_0 left join order_lines l1_0 on o1_0.id = l1_0.order_id where o1_0.id = {order}

-- [hibernate] n + 1
select l1_0.order_id, l1_0.line, l1_0.product_id, l1_0.quantity, l1_0.price from order_lines l1_0 where l1_0.order_id = {order}

-- [hibernate] member of
select t1_0.id, t1_0.title from tasks t1_0 where t1_0.project_id = {project} and {tag} in (select t2_0.tag_id from task_tags t2_0 where t1_0.id = t2_0.task_id)

-- [hibernate] size()
select p1_0.id, p1_0.name from projects p1_0 where p1_0.org_id = {org} and (select count(1) from tasks t1_0 where p1_0.id = t1_0.project_id) > {int 10 200}

-- [hibernate] paging (ordered)
select u1_0.id, u1_0.email, u1_0.name from users u1_0 where u1_0.status = 'active' order by u1_0.id offset {int 0 2000} rows fetch first 20 rows only

-- [hibernate] implicit joins
select t1_0.id from tasks t1_0 join projects p1_0 on p1_0.id = t1_0.project_id join users u1_0 on u1_0.id = p1_0.owner_id where u1_0.email = {email} and t1_0.state = 'open'

-- [hibernate] projection with sums
select p1_0.category_id, sum(l1_0.quantity), sum(l1_0.quantity * l1_0.price) from order_lines l1_0 join products p1_0 on p1_0.id = l1_0.product_id where p1_0.category_id = {category} group by p1_0.category_id

-- [hibernate] versioned update (writes)
update tasks set state = {state}, title = {word}, updated_at = {time}, version = 2 where id = {task} and version = 1

-- [hibernate] bulk delete by subquery (writes)
delete from comments c1_0 where c1_0.task_id in (select t1_0.id from tasks t1_0 where t1_0.project_id = {project} and t1_0.state = 'blocked')

-- [ecto] preload
SELECT c0."id", c0."task_id", c0."body", c0."task_id" FROM "comments" AS c0 WHERE (c0."task_id" = ANY({task[20]})) ORDER BY c0."task_id"

-- [ecto] dynamic filters
SELECT t0."id", t0."title" FROM "tasks" AS t0 WHERE ((((TRUE AND (t0."project_id" = {project})) AND (t0."state" = {state})) AND (t0."priority" >= {int 1 5})) AND (t0."created_at" > {time}))

-- [ecto] aggregate of a subquery
SELECT count(*) FROM (SELECT DISTINCT st0."user_id" AS "user_id" FROM "orders" AS st0 WHERE (st0."org_id" = {org})) AS s0

-- [ecto] join with a grouped subquery
SELECT p0."id", s1."n" FROM "projects" AS p0 INNER JOIN (SELECT st0."project_id" AS "project_id", count(st0."id") AS "n" FROM "tasks" AS st0 WHERE (st0."state" = 'open') GROUP BY st0."project_id") AS s1 ON s1."project_id" = p0."id" WHERE (p0."org_id" = {org})

-- [ecto] insert all with conflicts (writes)
INSERT INTO "counters" ("name", "value") VALUES ({counter}, {int 1 9}) ON CONFLICT ("name") DO UPDATE SET "value" = "counters"."value" + EXCLUDED."value" RETURNING "value"

-- [gorm] first (ordered)
SELECT * FROM "orders" WHERE user_id = {user} AND status = {order_status} ORDER BY "orders"."id" LIMIT 1

-- [gorm] soft delete with preload
SELECT * FROM "users" WHERE "users"."org_id" = {org} AND "users"."deleted_at" IS NULL

-- [gorm] where with a struct and an or
SELECT * FROM "tasks" WHERE ("tasks"."project_id" = {project} AND "tasks"."state" = 'open') OR ("tasks"."assignee_id" = {user} AND "tasks"."priority" = 5)

-- [gorm] save (writes)
UPDATE "users" SET "org_id"={org},"name"={word},"status"='active',"logins"={int 0 100} WHERE "deleted_at" IS NULL AND "id" = {user}

-- [typeorm] find with relations and take (ordered)
SELECT "distinctAlias"."p_id" AS "ids_p_id" FROM (SELECT "p"."id" AS "p_id", "p"."name" AS "p_name", "t"."id" AS "t_id" FROM "projects" "p" LEFT JOIN "tasks" "t" ON "t"."project_id"="p"."id" WHERE "p"."org_id" = {org}) "distinctAlias" GROUP BY "distinctAlias"."p_id" ORDER BY "p_id" ASC LIMIT 10

-- [typeorm] count distinct
SELECT COUNT(DISTINCT("t"."id")) AS "cnt" FROM "tasks" "t" LEFT JOIN "comments" "c" ON "c"."task_id"="t"."id" WHERE "t"."project_id" = {project}

-- [typeorm] composite key IN
SELECT "s"."value" FROM "settings" "s" WHERE (("s"."org_id" = {org} AND "s"."name" = 'theme') OR ("s"."org_id" = {org} AND "s"."name" = 'language') OR ("s"."org_id" = {org} AND "s"."name" = 'x1'))

-- [drizzle] relational query
select "u"."id", "u"."name", "o"."n", "o"."total" from "users" "u" left join lateral (select count(*) as "n", coalesce(sum("orders"."total"), 0) as "total" from "orders" where "orders"."user_id" = "u"."id") "o" on true where "u"."org_id" = {org}

-- [knex] whereIn with a subquery
select "id", "name" from "users" where "id" in (select "user_id" from "orders" where "status" = 'disputed') and "org_id" = {org}

-- [knex] whereNull with a join
select count("t"."id") as "n" from "tasks" as "t" inner join "projects" as "p" on "p"."id" = "t"."project_id" where "p"."org_id" = {org} and "t"."assignee_id" is null

-- [knex] having raw (ordered)
select "user_id", sum("total") as "spent" from "orders" where "org_id" = {org} group by "user_id" having sum("total") > {int 100 5000} order by "spent" desc, "user_id" asc limit 10

-- [sequelize] findAndCountAll
SELECT count("task"."id") AS "count" FROM "tasks" AS "task" INNER JOIN "projects" AS "project" ON "task"."project_id" = "project"."id" AND "project"."archived" = false WHERE "task"."state" = 'blocked'

-- [sequelize] required include under a limit (ordered)
SELECT "u"."id", "u"."name" FROM "users" AS "u" WHERE "u"."org_id" = {org} AND ( SELECT "user_id" FROM "orders" AS "o" WHERE ("o"."status" = 'paid' AND "o"."user_id" = "u"."id") LIMIT 1 ) IS NOT NULL ORDER BY "u"."id" ASC LIMIT 20

-- [queue] take one job (writes)
UPDATE jobs SET state = 'running', worker = {word}, attempts = attempts + 1 WHERE id = (SELECT id FROM jobs WHERE queue = {queue} AND state = 'ready' AND run_at <= {late} ORDER BY run_at, id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, attempts

-- [queue] take ten jobs by a CTE (writes)
WITH next AS (SELECT id FROM jobs WHERE queue = {queue} AND state = 'ready' ORDER BY run_at, id LIMIT 10 FOR UPDATE SKIP LOCKED) UPDATE jobs SET state = 'running', worker = {word} FROM next WHERE jobs.id = next.id RETURNING jobs.id

-- [queue] finish (writes)
UPDATE jobs SET state = 'done' WHERE id = {job}

-- [queue] depth of all queues
SELECT queue, state, count(*) FROM jobs GROUP BY queue, state

-- [queue] the oldest of a queue
SELECT min(run_at) FROM jobs WHERE queue = {queue} AND state = 'ready'

-- [queue] delete what is old (writes)
DELETE FROM jobs WHERE state = 'done' AND run_at < {early}

-- [queue] enqueue (writes)
INSERT INTO jobs (id, queue, state, run_at, priority, attempts, worker) VALUES ({new}, {queue}, 'ready', {time}, 1, 0, NULL)

-- [tree] descendants
WITH RECURSIVE sub AS (SELECT id, parent_id, name FROM categories WHERE id = {category} UNION ALL SELECT c.id, c.parent_id, c.name FROM categories c JOIN sub ON c.parent_id = sub.id) SELECT id, name FROM sub

-- [tree] ancestors
WITH RECURSIVE up AS (SELECT id, parent_id, name, 0 AS depth FROM categories WHERE id = {category} UNION ALL SELECT c.id, c.parent_id, c.name, up.depth + 1 FROM categories c JOIN up ON c.id = up.parent_id) SELECT id, name, depth FROM up

-- [tree] managers of a user
WITH RECURSIVE chain AS (SELECT id, manager_id FROM users WHERE id = {user} UNION ALL SELECT u.id, u.manager_id FROM users u JOIN chain ON u.id = chain.manager_id) SELECT count(*) FROM chain

-- [report] orders by status and month (ordered)
SELECT date_trunc('month', placed_at) AS month, status, count(*), sum(total) FROM orders WHERE org_id = {org} GROUP BY 1, 2 ORDER BY 1, 2

-- [report] revenue of a month over all tenants (ordered)
SELECT o.name, sum(r.total) AS total FROM orders r JOIN orgs o ON o.id = r.org_id WHERE r.placed_at >= '2024-06-01' AND r.placed_at < '2024-07-01' GROUP BY o.id, o.name ORDER BY total DESC, o.name LIMIT 10

-- [report] best products (ordered)
SELECT p.id, p.name, sum(l.quantity) AS sold FROM order_lines l JOIN products p ON p.id = l.product_id GROUP BY p.id, p.name ORDER BY sold DESC, p.id LIMIT 10

-- [report] products never ordered
SELECT p.id FROM products p WHERE NOT EXISTS (SELECT 1 FROM order_lines l WHERE l.product_id = p.id)

-- [report] customers above the average of their tenant
SELECT count(*) FROM orders o WHERE o.org_id = {org} AND o.total > (SELECT avg(i.total) FROM orders i WHERE i.org_id = o.org_id)

-- [report] last order of each customer
SELECT DISTINCT ON (user_id) user_id, id, placed_at, total FROM orders WHERE org_id = {org} ORDER BY user_id, placed_at DESC, id DESC

-- [report] first event of each kind
SELECT kind, min(at) FROM events WHERE org_id = {org} GROUP BY kind

-- [report] events of a day
SELECT kind, count(*), sum(amount) FROM events WHERE org_id = {org} AND at >= {t:time} AND at < {t} + interval '1 day' GROUP BY kind

-- [report] active users by country (ordered)
SELECT country, count(*) FROM users WHERE status = 'active' AND deleted_at IS NULL GROUP BY country ORDER BY count(*) DESC, country NULLS LAST LIMIT 10

-- [report] who has not logged in
SELECT count(*) FROM users WHERE org_id = {org} AND logins = 0

-- [report] overdue tasks with their owners (ordered)
SELECT t.id, t.title, t.due, u.name FROM tasks t JOIN projects p ON p.id = t.project_id JOIN users u ON u.id = p.owner_id WHERE t.due < {date} AND t.state <> 'done' ORDER BY t.due, t.id LIMIT 20

-- [report] five tables joined
SELECT o.name, p.name, count(DISTINCT t.id), count(c.id) FROM orgs o JOIN projects p ON p.org_id = o.id JOIN tasks t ON t.project_id = p.id LEFT JOIN comments c ON c.task_id = t.id WHERE o.id = {org} GROUP BY o.name, p.name

-- [report] the same over the days of a week
SELECT extract(dow FROM placed_at) AS day, count(*) FROM orders WHERE org_id = {org} GROUP BY 1

-- [report] a histogram
SELECT width_bucket(total, 0, 1000, 10) AS bucket, count(*) FROM orders WHERE org_id = {org} GROUP BY 1

-- [report] conditions over a join
SELECT count(*) FROM users u JOIN orders o ON o.user_id = u.id WHERE (u.org_id = {a:org} AND o.status = 'disputed') OR (u.org_id = {b:org} AND o.status = 'paid')

-- [report] duplicates
SELECT name, count(*) FROM products GROUP BY name HAVING count(*) > 3

-- [report] pairs of equals
SELECT a.id, b.id FROM products a JOIN products b ON a.name = b.name AND a.id < b.id WHERE a.category_id = {category}

-- [report] running numbers by a correlated count
SELECT o.id, (SELECT count(*) FROM orders i WHERE i.user_id = o.user_id AND i.placed_at <= o.placed_at) AS nth FROM orders o WHERE o.user_id = {user}

-- [report] a scalar without an index
SELECT u.id, (SELECT sum(c.id % 7) FROM comments c WHERE c.author_id = u.id) AS n FROM users u WHERE u.org_id = {org}

-- [report] in both
SELECT user_id FROM orders WHERE org_id = {org} AND status = 'paid' INTERSECT SELECT user_id FROM orders WHERE org_id = {org} AND status = 'shipped'

-- [report] in one only
SELECT id FROM users WHERE org_id = {org} EXCEPT SELECT user_id FROM orders WHERE status = 'paid'

-- [report] all of a table in order (ordered)
SELECT id, sku, price FROM products ORDER BY price DESC, id LIMIT 100

-- [report] percentages
SELECT status, round(100.0 * count(*) / (SELECT count(*) FROM orders WHERE org_id = {o:org}), 2) AS percent FROM orders WHERE org_id = {o} GROUP BY status

-- [shop] cheapest of a category (ordered)
SELECT id, name, price FROM products WHERE category_id = {category} AND stock > 0 ORDER BY price, id LIMIT 20

-- [shop] a range of prices in several categories (ordered)
SELECT id, name, price FROM products WHERE category_id IN ({category*5}) AND price BETWEEN {p:int 1 400} AND {p} + 100 ORDER BY price, id LIMIT 20

-- [shop] bought together (ordered)
SELECT other.product_id, count(*) AS n FROM order_lines mine JOIN order_lines other ON other.order_id = mine.order_id AND other.product_id <> mine.product_id WHERE mine.product_id = {product} GROUP BY other.product_id ORDER BY n DESC, other.product_id LIMIT 5

-- [shop] an order with its lines
SELECT o.id, o.total, l.line, p.name, l.quantity, l.price FROM orders o JOIN order_lines l ON l.order_id = o.id JOIN products p ON p.id = l.product_id WHERE o.id = {order} ORDER BY l.line

-- [shop] several lines in stock (writes)
UPDATE products SET stock = stock - v.n FROM (VALUES ({a:product}::int, 1), ({b:product}::int, 2), ({c:product}::int, 1)) AS v (id, n) WHERE products.id = v.id AND products.stock >= v.n

-- [shop] move a balance (writes)
UPDATE users SET balance = CASE id WHEN {a:user} THEN balance - 1 ELSE balance + 1 END WHERE id IN ({a}, {b:user})

-- [shop] order placed (writes)
INSERT INTO order_lines (order_id, line, product_id, quantity, price) SELECT {order}, 100 + p.id, p.id, 1, p.price FROM products p WHERE p.id IN ({product*5}) ON CONFLICT DO NOTHING

-- [tenant] a tenant's counts at once
SELECT (SELECT count(*) FROM users WHERE org_id = {o:org}) AS users, (SELECT count(*) FROM projects WHERE org_id = {o}) AS projects, (SELECT count(*) FROM orders WHERE org_id = {o}) AS orders

-- [tenant] settings merged with defaults
SELECT d.name, COALESCE(s.value, d.value) FROM (VALUES ('theme', 'light'), ('language', 'en'), ('zone', 'UTC')) AS d (name, value) LEFT JOIN settings s ON s.org_id = {org} AND s.name = d.name

-- [tenant] newest of every tenant
SELECT o.id, (SELECT max(e.at) FROM events e WHERE e.org_id = o.id) AS newest FROM orgs o

-- [tenant] feed over followed projects (ordered)
SELECT c.id, c.body, c.created_at FROM comments c JOIN tasks t ON t.id = c.task_id WHERE t.project_id IN ({project*5}) ORDER BY c.created_at DESC, c.id DESC LIMIT 20

-- [tenant] my tasks, most urgent first (ordered)
SELECT id, title, priority, due FROM tasks WHERE assignee_id = {user} AND state IN ('open', 'blocked') ORDER BY priority DESC, due NULLS LAST, id LIMIT 20

-- [tenant] optional filters
SELECT count(*) FROM tasks WHERE project_id = {project} AND ({state}::text IS NULL OR state = {state}) AND (NULL::int IS NULL OR priority = 3)

-- [tenant] last n events before a moment (ordered)
SELECT at, id, kind, amount FROM events WHERE org_id = {org} AND at < {time} ORDER BY at DESC, id DESC LIMIT 20

-- [tenant] a gap in the numbers
SELECT coalesce(max(line), 0) + 1 FROM order_lines WHERE order_id = {order}

-- [tenant] copy of a project's tasks (writes)
INSERT INTO tasks (id, project_id, assignee_id, state, priority, title, due, created_at, updated_at, version) SELECT {n:new} + row_number() OVER (ORDER BY id), project_id, NULL, 'open', priority, title, NULL, created_at, updated_at, 1 FROM tasks WHERE project_id = {project}

-- [report] a query of joins joined again
SELECT q.title, g.name FROM (SELECT t.id, t.title, t.project_id, p.org_id FROM tasks t JOIN projects p ON p.id = t.project_id) q JOIN task_tags tt ON tt.task_id = q.id JOIN tags g ON g.id = tt.tag_id WHERE q.project_id = {project}

-- [report] a WITH query of joins that a filter leads into
WITH placed AS (SELECT o.id, o.user_id, u.email, u.org_id FROM orders o JOIN users u ON u.id = o.user_id) SELECT placed.id, l.line FROM placed JOIN order_lines l ON l.order_id = placed.id WHERE placed.user_id = {user}

-- [report] groups joined by their key
SELECT p.id, p.name, n.tasks FROM projects p LEFT JOIN (SELECT project_id, count(*) AS tasks FROM tasks GROUP BY project_id) n ON n.project_id = p.id WHERE p.org_id = {org}

-- [report] distinct rows joined by their key
SELECT p.id, s.state FROM projects p JOIN (SELECT DISTINCT project_id, state FROM tasks) s ON s.project_id = p.id WHERE p.org_id = {org}

-- [rails] includes and a subquery
SELECT t.id, t.title, u.name FROM tasks t LEFT OUTER JOIN users u ON u.id = t.assignee_id WHERE t.id IN (SELECT c.task_id FROM comments c WHERE c.author_id = {user})

-- [rails] left joins below an inner join
SELECT t.id, u.name, m.name FROM tasks t LEFT OUTER JOIN users u ON u.id = t.assignee_id LEFT OUTER JOIN users m ON m.id = u.manager_id INNER JOIN projects p ON p.id = t.project_id WHERE p.id = {project}

-- [report] a left join with several tables
SELECT c.id, q.name FROM comments c LEFT JOIN (SELECT t.id, p.name FROM tasks t JOIN projects p ON p.id = t.project_id) q ON q.id = c.task_id WHERE c.author_id = {user}

-- [report] a lateral query that only joins
SELECT o.id, l.name FROM orders o CROSS JOIN LATERAL (SELECT p.name FROM order_lines ol JOIN products p ON p.id = ol.product_id WHERE ol.order_id = o.id) l WHERE o.user_id = {user}

-- [report] exists past the neighbour
SELECT u.id FROM users u WHERE u.org_id = {org} AND EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.id AND EXISTS (SELECT 1 FROM comments c WHERE c.author_id = u.id AND c.task_id > o.id))

-- [report] a correlated query in FROM
SELECT u.id, (SELECT sum(q.total) FROM (SELECT o.total FROM orders o WHERE o.user_id = u.id ORDER BY o.placed_at DESC LIMIT 3) q) AS newest FROM users u WHERE u.org_id = {org}

-- [django] ordered by a foreign key and what no index has (ordered)
SELECT id, assignee_id, title FROM tasks WHERE assignee_id IS NOT NULL ORDER BY assignee_id, priority DESC, id LIMIT 25

-- [rails] newest first, then by name (ordered)
SELECT id, title, created_at FROM tasks ORDER BY created_at DESC, title, id LIMIT 20

-- [report] joined, ordered by columns of two tables (ordered)
SELECT t.created_at, u.name, t.id FROM tasks t JOIN users u ON u.id = t.assignee_id ORDER BY t.created_at DESC, u.name, t.id LIMIT 20

-- [report] ordered by the other side of what is equal (ordered)
SELECT u.id, o.id, o.total FROM orders o JOIN users u ON u.id = o.user_id ORDER BY u.id DESC, o.id DESC LIMIT 20

-- [django] annotate a page with sums (ordered)
SELECT u.id, u.name, COUNT(o.id) AS n, SUM(o.total) AS total FROM users u LEFT OUTER JOIN orders o ON (o.user_id = u.id) GROUP BY u.id, u.name ORDER BY u.id ASC LIMIT 25 OFFSET 50

-- [report] first groups by an indexed column (ordered)
SELECT user_id, status, count(*), sum(total) FROM orders GROUP BY user_id, status ORDER BY user_id, status LIMIT 20

-- [report] first different pairs (ordered)
SELECT DISTINCT assignee_id, state FROM tasks WHERE assignee_id IS NOT NULL ORDER BY assignee_id, state LIMIT 20

-- [report] the newest of each of the first ones (ordered)
SELECT DISTINCT ON (task_id) task_id, id, author_id FROM comments ORDER BY task_id, created_at DESC, id DESC LIMIT 20

-- [report] two large tables by their keys
SELECT count(*), sum(l.quantity) FROM orders o JOIN order_lines l ON l.order_id = o.id WHERE o.total > 100

-- [report] rows without a counterpart, of all
SELECT count(*) FROM tasks t WHERE NOT EXISTS (SELECT 1 FROM task_tags tt WHERE tt.task_id = t.id)

-- [report] a join of rows that nobody can count beforehand
SELECT count(*), sum(o.total) FROM users u JOIN orders o ON o.user_id = u.id WHERE lower(u.name) LIKE '%a%' AND u.logins % 7 = 3

-- [report] a join of a few rows that nobody can count beforehand
SELECT o.id, o.total FROM users u JOIN orders o ON o.user_id = u.id WHERE lower(u.email) = lower({email})

-- [tenant] newest orders of users with a property (ordered)
SELECT id, user_id, total FROM orders WHERE user_id IN (SELECT id FROM users WHERE org_id = {org} AND logins < 50) ORDER BY placed_at DESC, id DESC LIMIT 10

-- [django] exclude by a long list
SELECT COUNT(*) AS __count FROM users WHERE NOT (users.id IN ({user*100}))

-- [tenant] optional filters without a fixed one
SELECT count(*) FROM tasks WHERE ({user}::int IS NULL OR assignee_id = {user}) AND (NULL::text IS NULL OR state = 'open')

-- [tenant] a filter that a parameter may leave out, by coalesce (ordered)
SELECT id, total FROM orders WHERE user_id = coalesce({user}, user_id) AND status = coalesce(NULL, status) ORDER BY id LIMIT 20

-- [report] first users with many orders (ordered)
SELECT id, name FROM users WHERE id IN (SELECT user_id FROM orders GROUP BY user_id HAVING count(*) > 3) ORDER BY id LIMIT 20

-- [report] users without many orders
SELECT count(*) FROM users u WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.id GROUP BY o.user_id HAVING count(*) > 3)

-- [report] first totals of grouped rows (ordered)
SELECT u.id, u.name, o.orders FROM users u JOIN (SELECT user_id, count(*) AS orders, sum(total) AS total FROM orders GROUP BY user_id) o ON o.user_id = u.id ORDER BY u.id LIMIT 20

-- [report] percentiles of groups
SELECT status, percentile_cont(0.5) WITHIN GROUP (ORDER BY total), percentile_disc(0.9) WITHIN GROUP (ORDER BY total) FROM orders GROUP BY status

-- [report] first rows of two tables together (ordered)
SELECT id, at FROM (SELECT id, created_at AS at FROM tasks UNION ALL SELECT id, placed_at FROM orders) x ORDER BY at DESC, id DESC LIMIT 20

-- [report] users with an order of a product
SELECT count(*) FROM users u WHERE EXISTS (SELECT 1 FROM orders o JOIN order_lines l ON l.order_id = o.id WHERE o.user_id = u.id AND l.product_id = {product})

-- [report] joined by one of two columns
SELECT count(*) FROM orders o JOIN users u ON u.id = o.user_id OR u.manager_id = o.user_id WHERE o.id IN ({order}, {order}, {order})

-- [report] joined with the newest by a correlated query
SELECT u.id, o.id FROM users u JOIN orders o ON o.id = (SELECT x.id FROM orders x WHERE x.user_id = u.id ORDER BY x.placed_at DESC, x.id DESC LIMIT 1) WHERE u.org_id = {org}
