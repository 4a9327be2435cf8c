-- What people index: foreign keys they search by, what they page by, what they filter by. Not everything:
-- nothing finds comments by their author, or events by their user.
CREATE INDEX users_org_created ON users (org_id, created_at);
CREATE INDEX users_manager ON users (manager_id);
CREATE INDEX projects_org ON projects (org_id);
CREATE INDEX tasks_project_state ON tasks (project_id, state);
CREATE INDEX tasks_assignee ON tasks (assignee_id);
CREATE INDEX tasks_created ON tasks (created_at);
CREATE INDEX tasks_due ON tasks (due);
CREATE INDEX comments_task_created ON comments (task_id, created_at);
CREATE INDEX task_tags_tag ON task_tags (tag_id);
CREATE INDEX categories_parent ON categories (parent_id);
CREATE INDEX products_category_price ON products (category_id, price);
CREATE INDEX orders_user_placed ON orders (user_id, placed_at);
CREATE INDEX orders_org_placed ON orders (org_id, placed_at);
CREATE INDEX orders_status ON orders (status);
CREATE INDEX order_lines_product ON order_lines (product_id);
CREATE INDEX jobs_queue_state_run ON jobs (queue, state, run_at);
