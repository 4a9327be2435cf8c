-- A database in which each form of a key, of a row and of the catalogue's entries occurs. What it looks like on disk is v1.dump,
-- what it answers is v1.out; neither is changed once the format is released.

SET TIME ZONE 'UTC';

CREATE TABLE forms (
    id integer PRIMARY KEY,
    yes boolean, i2 smallint, i8 bigint, o oid, f4 real, f8 double precision, n numeric, n2 numeric(10,2),
    d date, t time, ts timestamp, tz timestamptz, iv interval, u uuid, s text, v varchar(9), c char(5), b bytea,
    ia integer[], ta text[], na numeric[]
);
INSERT INTO forms VALUES
    (1, true, -32768, 9223372036854775807, 4294967295, -1.5, 0.1, 12345.678900, -0.05, '2024-02-29', '23:59:59.999999',
        '1999-12-31 23:59:59', '2000-01-01 00:00:00+00', '1 year -2 days 03:04:05', '00112233-4455-6677-8899-aabbccddeeff', 'Колибри', 'nine char', 'ab',
        '\x0001ff', '{1,NULL,3}', '{a,"b c",NULL}', '{{1.50,2},{3,4}}'),
    (2, false, 32767, -9223372036854775808, 0, 'NaN', '-Infinity', 0.000, 0, '0001-01-01', '00:00', '-infinity', 'infinity', '0', NULL, '', '', '', '', '{}', '{}', NULL);
INSERT INTO forms (id) VALUES (-3);
INSERT INTO forms (id, n, s) VALUES (4, -99999999999999999999999999999999999999, repeat('long', 16400));

-- Keys of every type, up and down, with NULLs at either end.
CREATE INDEX forms_small ON forms (yes, i2 DESC, i8 NULLS FIRST, o);
CREATE INDEX forms_floats ON forms (f4, f8 DESC NULLS LAST);
CREATE INDEX forms_numbers ON forms (n DESC, n2);
CREATE INDEX forms_times ON forms (d, t DESC, ts, tz, iv);
CREATE UNIQUE INDEX forms_texts ON forms (v, b DESC, u, c);

CREATE TABLE ranges (a numeric, b interval, c double precision, d text, PRIMARY KEY (d, a, b, c), e text);
INSERT INTO ranges VALUES (1.10, '30 days', -0.0, 'x', NULL), (1.1, '1 month 1 hour', 0.5, E'x\001y', 'd'), (-0.001, '-1 day', 'Infinity', '', 'e');

-- Rows of four generations of columns.
CREATE TABLE grown (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a integer NOT NULL, gone text DEFAULT 'g');
INSERT INTO grown (a) VALUES (1), (2);
ALTER TABLE grown ADD COLUMN b text DEFAULT 'since' NOT NULL;
INSERT INTO grown (a, b) VALUES (3, 'three');
ALTER TABLE grown DROP COLUMN gone;
INSERT INTO grown (a) VALUES (4);
ALTER TABLE grown ADD COLUMN c numeric(4,1);
UPDATE grown SET c = 7.25 WHERE id IN (1, 4);

CREATE TABLE heap (x integer, y text);
INSERT INTO heap VALUES (1, 'one'), (1, 'one'), (NULL, NULL);
DELETE FROM heap WHERE x IS NULL;

CREATE SCHEMA garden;
CREATE SEQUENCE garden.tickets START 10 INCREMENT -5 MINVALUE -100 MAXVALUE 10 CYCLE;
CREATE TABLE garden.birds (
    name text PRIMARY KEY CHECK (name <> ''),
    mother text REFERENCES garden.birds ON DELETE SET NULL,
    form integer DEFAULT 1 REFERENCES forms (id) ON UPDATE CASCADE,
    ticket integer DEFAULT nextval('garden.tickets') UNIQUE,
    seen timestamptz DEFAULT now()
);
INSERT INTO garden.birds (name, seen) VALUES ('Colibri', NULL);
INSERT INTO garden.birds (name, mother, form, seen) VALUES ('Anna', 'Colibri', 2, '2026-01-01 12:00:00+03');
CREATE VIEW garden.families AS SELECT b.name, m.name AS mother FROM garden.birds b LEFT JOIN garden.birds m ON m.name = b.mother;
COMMENT ON TABLE garden.birds IS 'those that were seen';
GRANT SELECT ON garden.families TO PUBLIC;
