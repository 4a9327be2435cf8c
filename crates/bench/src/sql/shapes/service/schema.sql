-- A service with tenants: organisations, their users, projects with tasks, comments and tags, orders of
-- products, events, jobs in queues.
CREATE TABLE orgs (
    id int PRIMARY KEY,
    name varchar(80) NOT NULL,
    plan text NOT NULL,
    created_at timestamp NOT NULL
);
CREATE TABLE users (
    id int PRIMARY KEY,
    org_id int NOT NULL REFERENCES orgs,
    email text NOT NULL UNIQUE,
    name text NOT NULL,
    status text NOT NULL,
    country text,
    manager_id int REFERENCES users,
    created_at timestamp NOT NULL,
    deleted_at timestamp,
    balance numeric(12, 2) NOT NULL,
    logins int NOT NULL
);
CREATE TABLE projects (
    id int PRIMARY KEY,
    org_id int NOT NULL REFERENCES orgs,
    owner_id int NOT NULL REFERENCES users,
    name text NOT NULL,
    archived boolean NOT NULL,
    created_at timestamp NOT NULL
);
CREATE TABLE tasks (
    id bigint PRIMARY KEY,
    project_id int NOT NULL REFERENCES projects,
    assignee_id int REFERENCES users,
    state text NOT NULL,
    priority int NOT NULL,
    title text NOT NULL,
    due date,
    created_at timestamp NOT NULL,
    updated_at timestamp NOT NULL,
    version int NOT NULL
);
CREATE TABLE comments (
    id bigint PRIMARY KEY,
    task_id bigint NOT NULL REFERENCES tasks,
    author_id int NOT NULL,
    body text NOT NULL,
    created_at timestamp NOT NULL
);
CREATE TABLE tags (
    id int PRIMARY KEY,
    name text NOT NULL UNIQUE
);
CREATE TABLE task_tags (
    task_id bigint NOT NULL REFERENCES tasks,
    tag_id int NOT NULL REFERENCES tags,
    PRIMARY KEY (task_id, tag_id)
);
CREATE TABLE categories (
    id int PRIMARY KEY,
    parent_id int REFERENCES categories,
    name text NOT NULL
);
CREATE TABLE products (
    id int PRIMARY KEY,
    sku text NOT NULL UNIQUE,
    category_id int NOT NULL REFERENCES categories,
    name text NOT NULL,
    price numeric(10, 2) NOT NULL,
    stock int NOT NULL
);
CREATE TABLE orders (
    id bigint PRIMARY KEY,
    org_id int NOT NULL REFERENCES orgs,
    user_id int NOT NULL REFERENCES users,
    status text NOT NULL,
    total numeric(12, 2) NOT NULL,
    placed_at timestamp NOT NULL,
    shipped_at timestamp
);
CREATE TABLE order_lines (
    order_id bigint NOT NULL REFERENCES orders,
    line int NOT NULL,
    product_id int NOT NULL REFERENCES products,
    quantity int NOT NULL,
    price numeric(10, 2) NOT NULL,
    PRIMARY KEY (order_id, line)
);
CREATE TABLE events (
    org_id int NOT NULL,
    at timestamp NOT NULL,
    id bigint NOT NULL,
    kind text NOT NULL,
    user_id int,
    amount int NOT NULL,
    PRIMARY KEY (org_id, at, id)
);
CREATE TABLE jobs (
    id bigint PRIMARY KEY,
    queue text NOT NULL,
    state text NOT NULL,
    run_at timestamp NOT NULL,
    priority int NOT NULL,
    attempts int NOT NULL,
    worker text
);
CREATE TABLE settings (
    org_id int NOT NULL REFERENCES orgs,
    name text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (org_id, name)
);
CREATE TABLE counters (
    name text PRIMARY KEY,
    value bigint NOT NULL
);
