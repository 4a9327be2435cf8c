-- What people index: foreign keys they search by, what they page by, what they filter by. Not everything:
-- nothing finds comments by their author, or events by their user.
CREATE INDEX IF NOT EXISTS users_org_created ON users (org_id, created_at);
CREATE INDEX IF NOT EXISTS users_manager ON users (manager_id);
CREATE INDEX IF NOT EXISTS projects_org ON projects (org_id);
CREATE INDEX IF NOT EXISTS tasks_project_state ON tasks (project_id, state);
CREATE INDEX IF NOT EXISTS tasks_assignee ON tasks (assignee_id);
CREATE INDEX IF NOT EXISTS tasks_created ON tasks (created_at);
CREATE INDEX IF NOT EXISTS tasks_due ON tasks (due);
CREATE INDEX IF NOT EXISTS comments_task_created ON comments (task_id, created_at);
CREATE INDEX IF NOT EXISTS task_tags_tag ON task_tags (tag_id);
CREATE INDEX IF NOT EXISTS categories_parent ON categories (parent_id);
CREATE INDEX IF NOT EXISTS products_category_price ON products (category_id, price);
CREATE INDEX IF NOT EXISTS orders_user_placed ON orders (user_id, placed_at);
CREATE INDEX IF NOT EXISTS orders_org_placed ON orders (org_id, placed_at);
CREATE INDEX IF NOT EXISTS orders_status ON orders (status);
CREATE INDEX IF NOT EXISTS order_lines_product ON order_lines (product_id);
CREATE INDEX IF NOT EXISTS jobs_queue_state_run ON jobs (queue, state, run_at);
