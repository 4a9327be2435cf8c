-- Everything that Colibri has, for the programs of others to show, dump and restore.
CREATE SCHEMA app;
CREATE SCHEMA "Odd name";
COMMENT ON SCHEMA app IS 'the application';
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE EXTENSION IF NOT EXISTS tablefunc;
CREATE EXTENSION IF NOT EXISTS intarray WITH SCHEMA "Odd name";
CREATE EXTENSION IF NOT EXISTS "uuid-ossp" WITH SCHEMA app;
CREATE TYPE app.mood AS ENUM ('sad', 'ok', 'it''s fine');
CREATE TYPE app.pair AS (a integer, b text, c numeric(8,2)[]);
COMMENT ON COLUMN app.pair.a IS 'the first';
CREATE DOMAIN app.email AS character varying(80) NOT NULL DEFAULT 'x@y' CONSTRAINT has_at CHECK (VALUE ~ '@');
CREATE DOMAIN app.positive AS numeric(10,2) CHECK (VALUE > 0) CONSTRAINT small CHECK (VALUE < 1000000);
COMMENT ON DOMAIN app.email IS 'an address';
COMMENT ON CONSTRAINT has_at ON DOMAIN app.email IS 'at';
CREATE SEQUENCE app.numbers AS integer START 10 INCREMENT 5 MINVALUE 5 MAXVALUE 1000 CYCLE;
COMMENT ON SEQUENCE app.numbers IS 'numbers';
SELECT nextval('app.numbers'), nextval('app.numbers');
CREATE SEQUENCE app.down INCREMENT -1;
CREATE FUNCTION app.add(a integer, b integer DEFAULT 1) RETURNS integer LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT a + b';
COMMENT ON FUNCTION app.add(integer, integer) IS 'adds';
CREATE FUNCTION app.body(a integer) RETURNS integer LANGUAGE sql BEGIN ATOMIC SELECT a * 2; END;
CREATE FUNCTION app.many(n integer, OUT i integer, OUT s text) RETURNS SETOF record LANGUAGE sql STABLE ROWS 10 COST 5 AS $$ SELECT g, g::text FROM generate_series(1, n) g $$;
CREATE FUNCTION app.tab(VARIADIC v integer[]) RETURNS TABLE(x integer, y integer) LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'app', 'public' SET work_mem TO '8MB' AS $$
BEGIN
  RETURN QUERY SELECT u, u * 2 FROM unnest(v) u;
END
$$;
CREATE PROCEDURE app.note(INOUT t text) LANGUAGE plpgsql AS $$ BEGIN t := t || '!'; END $$;
COMMENT ON PROCEDURE app.note(text) IS 'notes';
CREATE TABLE app.people (
  id integer GENERATED ALWAYS AS IDENTITY (START WITH 100 INCREMENT BY 2),
  name text COLLATE "C" NOT NULL,
  mail app.email,
  feeling app.mood DEFAULT 'ok',
  amount app.positive DEFAULT 1.5,
  born date DEFAULT CURRENT_DATE,
  made timestamp with time zone DEFAULT now() NOT NULL,
  doubled numeric GENERATED ALWAYS AS (((amount)::numeric * (2)::numeric)) STORED,
  tags text[] DEFAULT '{}'::text[] NOT NULL,
  doc jsonb DEFAULT '{}'::jsonb,
  both_ app.pair,
  CONSTRAINT people_pk PRIMARY KEY (id),
  CONSTRAINT people_name_check CHECK (name <> ''),
  CONSTRAINT people_name_mail UNIQUE (name, mail)
);
COMMENT ON TABLE app.people IS 'people';
COMMENT ON COLUMN app.people.name IS 'their "name"';
COMMENT ON CONSTRAINT people_pk ON app.people IS 'the key';
INSERT INTO app.people (name, mail, feeling, amount, born, made, tags, doc, both_) VALUES
 ('Ada', 'ada@x', 'sad', 2.5, '1815-12-10', '2020-01-01 00:00:00+00', '{a,"b c",NULL}', '{"k": [1, 2.50, null]}', ROW(1, 'x"y', '{1.00,2.50}')),
 ('Grace \ tab	', 'g@y', NULL, DEFAULT, '1906-12-09', '2020-01-01 00:00:00.123456+00', '{}', NULL, NULL);
CREATE TABLE app.orders (
  id bigserial PRIMARY KEY,
  person integer NOT NULL,
  parent bigint,
  code uuid UNIQUE,
  small smallserial,
  CONSTRAINT orders_person FOREIGN KEY (person) REFERENCES app.people(id) ON UPDATE CASCADE ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED
);
ALTER TABLE app.orders ADD CONSTRAINT orders_parent FOREIGN KEY (parent) REFERENCES app.orders(id) NOT VALID;
ALTER TABLE app.orders ADD CONSTRAINT orders_check CHECK (person > 0) NOT VALID;
INSERT INTO app.orders (person, code) SELECT 100, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11';
CREATE INDEX people_lower ON app.people USING btree (lower(name));
CREATE INDEX people_partial ON app.people USING btree (born DESC NULLS LAST, name) WHERE (feeling IS NOT NULL);
CREATE INDEX people_gin ON app.people USING gin (doc jsonb_path_ops);
CREATE INDEX people_tags ON app.people USING gin (tags);
CREATE INDEX people_trgm ON app.people USING gin (name public.gin_trgm_ops);
CREATE INDEX people_include ON app.people USING btree (made) INCLUDE (born);
CREATE INDEX people_hash ON app.people USING hash (name);
CREATE UNIQUE INDEX people_nnd ON app.people USING btree (feeling, name) NULLS NOT DISTINCT;
-- Bug: an index on an expression left a gap in the numbers of columns that were added later. Consequence: pg_dump ended with
-- "invalid column numbering in table". Fix: the place is one of a dropped column in pg_attribute.
CREATE TABLE app.grown (a integer, b text);
CREATE INDEX grown_lower ON app.grown USING btree (lower(b));
ALTER TABLE app.grown ADD COLUMN c integer DEFAULT 7;
COMMENT ON INDEX app.people_lower IS 'lower';
CREATE TABLE public.types_all (
  k integer NOT NULL,
  b boolean, i2 smallint, i8 bigint, f4 real, f8 double precision, n numeric, n2 numeric(20,5), m money,
  bi bit(5), vb bit varying(9), c character(4), vc character varying, t text, ba bytea, d date, ti time without time zone, ti3 time(3) without time zone,
  tz time with time zone, ts timestamp without time zone, tsz timestamp(0) with time zone, iv interval, ivd interval day to second(2), u uuid, j json, jb jsonb, jp jsonpath,
  r int4range, rn numrange, mr int8multirange, tr tstzrange, v tsvector, q tsquery, ip inet, ci cidr, ma macaddr, ma8 macaddr8, l pg_lsn, x xid8, o oid, rc regclass, ai integer[], at text[][], ad date[]
);
ALTER TABLE ONLY public.types_all ADD CONSTRAINT types_all_pkey PRIMARY KEY (k);
INSERT INTO public.types_all VALUES (1, true, -32768, 9223372036854775807, 1.5, 'NaN', 12345678901234567890.123456789, 1.5, '12.34', '10101', '101', 'ab', 'v', E'line\nnext\t\\ ', '\xdeadbeef00', '2020-02-29', '12:34:56.789', '12:34:56.789',
 '12:34:56+02', '2020-02-29 12:34:56.789', '2020-02-29 12:34:56+00', '1 year 2 mons 3 days 04:05:06.7', '3 days 04:05:06.78', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a":  1}', '{"a": 1}', '$.a[*] ? (@ > 1)',
 '[1,5)', '[1.5,)', '{[1,3),[5,7)}', '[2020-01-01 00:00:00+00,2021-01-01 00:00:00+00)', '''a'':1A ''b'':2', '''a'' & !''b''', '10.0.0.1/24', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', '16/B374D848', '123', 5, 'pg_class', '{1,NULL,3}', '{{a,b},{"c d",NULL}}', '{2020-01-01,infinity}');
INSERT INTO public.types_all (k, f8, f4, n, d, ts, t) VALUES (2, 'Infinity', '-Infinity', 'NaN', '-infinity', 'infinity', '');
INSERT INTO public.types_all (k, t, ba) SELECT g, repeat(md5(g::text), 200), decode(repeat(md5(g::text), 100), 'hex') FROM generate_series(3, 200) g;
CREATE TABLE app.measures (city integer NOT NULL, at date NOT NULL, temp integer, CONSTRAINT measures_pkey PRIMARY KEY (city, at)) PARTITION BY RANGE (at);
CREATE TABLE app.measures_2020 PARTITION OF app.measures FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
CREATE TABLE app.measures_2021 PARTITION OF app.measures FOR VALUES FROM ('2021-01-01') TO ('2022-01-01') PARTITION BY LIST (city);
CREATE TABLE app.measures_2021_a PARTITION OF app.measures_2021 FOR VALUES IN (1, 2);
CREATE TABLE app.measures_2021_d PARTITION OF app.measures_2021 DEFAULT;
CREATE TABLE app.measures_rest PARTITION OF app.measures DEFAULT;
CREATE INDEX measures_temp ON app.measures (temp);
INSERT INTO app.measures SELECT i % 4, date '2020-06-01' + i * 30, i FROM generate_series(1, 30) i;
CREATE TABLE app.hashed (k text PRIMARY KEY, v integer) PARTITION BY HASH (k);
CREATE TABLE app.hashed_0 PARTITION OF app.hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE app.hashed_1 PARTITION OF app.hashed FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO app.hashed SELECT g::text, g FROM generate_series(1, 20) g;
CREATE VIEW app.happy AS SELECT p.id, p.name, count(o.id) AS orders FROM app.people p LEFT JOIN app.orders o ON o.person = p.id WHERE p.feeling = 'ok' GROUP BY p.id, p.name;
COMMENT ON VIEW app.happy IS 'the happy';
COMMENT ON COLUMN app.happy.orders IS 'how many';
CREATE VIEW app.simple WITH (security_barrier=true) AS SELECT id, name FROM app.people WHERE id > 0 WITH LOCAL CHECK OPTION;
CREATE VIEW app.invoker WITH (security_invoker=true) AS SELECT * FROM app.simple;
CREATE MATERIALIZED VIEW app.totals AS SELECT feeling, sum(amount) AS total FROM app.people GROUP BY feeling;
CREATE UNIQUE INDEX totals_feeling ON app.totals (feeling);
COMMENT ON MATERIALIZED VIEW app.totals IS 'totals';
CREATE MATERIALIZED VIEW app.empty AS SELECT 1 AS one WITH NO DATA;
CREATE FUNCTION app.touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.made := now(); RETURN NEW; END $$;
CREATE TRIGGER people_touch BEFORE UPDATE OF name, mail ON app.people FOR EACH ROW WHEN (OLD.name IS DISTINCT FROM NEW.name) EXECUTE FUNCTION app.touch();
CREATE TRIGGER people_said AFTER INSERT OR DELETE ON app.people FOR EACH STATEMENT EXECUTE FUNCTION app.touch('a', 'b''c');
ALTER TABLE app.people DISABLE TRIGGER people_said;
COMMENT ON TRIGGER people_touch ON app.people IS 'touches';
CREATE TABLE app.bookings (room integer, during tsrange, EXCLUDE USING gist (during WITH &&));
CREATE TABLE "Odd name"."Odd ""table" ("Odd col" integer PRIMARY KEY, "select" text DEFAULT 'it''s');
INSERT INTO "Odd name"."Odd ""table" VALUES (1, 'x');
CREATE UNLOGGED TABLE app.unlogged (a integer) WITH (fillfactor='70');
CREATE TABLE app.lists (a integer[], q "Odd name".query_int DEFAULT '1 & 2'::"Odd name".query_int);
INSERT INTO app.lists VALUES ('{1,2}', '1|!2');
CREATE INDEX lists_a ON app.lists USING gin (a "Odd name".gin__int_ops);
CREATE TABLE app.parent (a integer, b text DEFAULT 'p');
CREATE TABLE app.nokey (a integer, b text);
INSERT INTO app.nokey VALUES (1, NULL), (1, NULL), (NULL, '\N');
CREATE TABLE app.empty_columns ();
ALTER TABLE app.nokey REPLICA IDENTITY FULL;
ALTER TABLE app.people ALTER COLUMN name SET STATISTICS 500;

GRANT USAGE ON SCHEMA app TO app_reader;
GRANT ALL ON SCHEMA app TO app_writer;
GRANT SELECT ON TABLE app.people TO app_reader;
GRANT SELECT, INSERT, UPDATE ON TABLE app.people TO app_writer WITH GRANT OPTION;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO PUBLIC;
GRANT USAGE ON SEQUENCE app.numbers TO app_writer;
REVOKE ALL ON FUNCTION app.add(integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION app.add(integer, integer) TO app_writer;
ALTER TABLE app.orders OWNER TO app_writer;
