-- A help desk with a shop: tenants, their users, projects with tickets, comments and labels; products, customers,
-- orders; events. Keys are numbers, texts and uuids; few tenants and projects have most of the rows.
create table tenants (
    id int primary key,
    slug text not null unique,
    name varchar(100) not null,
    plan varchar(20) not null,
    seats int,
    created_at timestamptz not null,
    deleted_at timestamptz
);
create table users (
    id bigint primary key,
    tenant_id int not null references tenants,
    email varchar(255) not null,
    username text not null unique,
    full_name text not null,
    role varchar(20) not null,
    is_active boolean not null,
    country char(2),
    score real,
    created_at timestamptz not null,
    last_login timestamptz,
    deleted_at timestamptz,
    unique (tenant_id, email)
);
create table projects (
    id uuid primary key,
    tenant_id int not null references tenants,
    key varchar(12) not null,
    name text not null,
    archived boolean not null default false,
    owner_id bigint references users,
    created_at timestamptz not null,
    unique (tenant_id, key)
);
create table memberships (
    project_id uuid not null references projects,
    user_id bigint not null references users,
    role varchar(16) not null,
    joined_on date not null,
    primary key (project_id, user_id)
);
create table tickets (
    id bigint primary key,
    tenant_id int not null references tenants,
    project_id uuid not null references projects,
    number int not null,
    title text not null,
    status varchar(16) not null,
    priority smallint not null,
    assignee_id bigint references users,
    reporter_id bigint not null references users,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    closed_at timestamptz,
    due_on date,
    estimate numeric(6,2),
    watchers int[],
    deleted_at timestamptz,
    unique (project_id, number)
);
create table comments (
    id bigint primary key,
    ticket_id bigint not null references tickets,
    author_id bigint not null references users,
    parent_id bigint,
    body text not null,
    is_internal boolean not null,
    created_at timestamptz not null,
    deleted_at timestamptz
);
create table labels (
    id int primary key,
    tenant_id int not null references tenants,
    name text not null,
    color char(6),
    unique (tenant_id, name)
);
create table ticket_labels (
    ticket_id bigint not null references tickets,
    label_id int not null references labels,
    primary key (ticket_id, label_id)
);
create table categories (
    id int primary key,
    parent_id int references categories,
    name text not null,
    position int not null,
    depth int not null
);
create table products (
    sku text primary key,
    category_id int not null references categories,
    name text not null,
    price numeric(10,2) not null,
    stock int not null,
    active boolean not null,
    weight double precision,
    created_at timestamp not null
);
create table customers (
    id uuid primary key,
    tenant_id int not null references tenants,
    email text not null,
    name text not null,
    city text,
    phone text,
    credit numeric(12,2) not null,
    vip boolean not null,
    created_at timestamp not null,
    deleted_at timestamp
);
create table orders (
    id bigint primary key,
    tenant_id int not null references tenants,
    customer_id uuid not null references customers,
    status text not null,
    total numeric(12,2) not null,
    currency char(3) not null,
    placed_at timestamp not null,
    shipped_at timestamp,
    ref varchar(20) not null unique,
    note text
);
create table order_items (
    order_id bigint not null references orders,
    line_no smallint not null,
    sku text not null references products,
    qty int not null,
    unit_price numeric(10,2) not null,
    discount numeric(4,2),
    primary key (order_id, line_no)
);
create table events (
    id bigint primary key,
    tenant_id int not null,
    user_id bigint,
    kind text not null,
    entity text,
    occurred_at timestamp not null,
    duration_ms int,
    amount double precision
);
