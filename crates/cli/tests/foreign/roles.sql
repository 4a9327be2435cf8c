-- The roles of everything.sql.
CREATE ROLE app_reader NOLOGIN;
CREATE ROLE app_writer LOGIN CONNECTION LIMIT 5 VALID UNTIL '2035-01-01 00:00:00+00';
COMMENT ON ROLE app_reader IS 'reads';
GRANT app_reader TO app_writer WITH ADMIN OPTION;
ALTER ROLE app_writer SET search_path TO 'app', 'public';
ALTER ROLE app_writer SET work_mem TO '8MB';
