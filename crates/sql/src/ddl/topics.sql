CREATE FUNCTION topic.create(
    name text, partitions integer DEFAULT 4, retention interval DEFAULT NULL, retention_bytes bigint DEFAULT NULL,
    payload regtype DEFAULT 'text'
) RETURNS regclass LANGUAGE plpgsql AS $$
DECLARE
    parts text[] := pg_catalog.parse_ident(name);
    schema text := CASE WHEN pg_catalog.cardinality(parts) > 1 THEN parts[1] ELSE pg_catalog.current_schema() END;
    base text := parts[pg_catalog.cardinality(parts)];
    settings text := pg_catalog.format('topic_partitions = %s', partitions);
BEGIN
    IF pg_catalog.cardinality(parts) > 2 OR base IS NULL THEN
        RAISE invalid_name USING MESSAGE = pg_catalog.format('invalid name of a topic: %s', name);
    END IF;
    IF retention IS NOT NULL THEN
        settings := settings || pg_catalog.format(', topic_retention = %L', retention::text);
    END IF;
    IF retention_bytes IS NOT NULL THEN
        settings := settings || pg_catalog.format(', topic_retention_bytes = %s', retention_bytes);
    END IF;
    EXECUTE pg_catalog.format(
        'CREATE TABLE %1$I.%2$I (partition integer, "offset" bigint, key text, payload %3$s, '
        'put_at timestamptz NOT NULL DEFAULT pg_catalog.now(), PRIMARY KEY (partition, "offset")) WITH (%4$s)',
        schema, base, payload, settings);
    EXECUTE pg_catalog.format(
        'CREATE TABLE %I.%I (consumer text, partition integer, committed bigint NOT NULL DEFAULT 0, '
        'committed_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(), PRIMARY KEY (consumer, partition))',
        schema, base || '_consumers');
    RETURN pg_catalog.format('%I.%I', schema, base)::regclass;
END $$;

CREATE FUNCTION topic.consumers(topic regclass) RETURNS text LANGUAGE plpgsql STABLE STRICT AS $$
DECLARE
    name text := topic::text;
BEGIN
    -- The name is quoted where it has to be.
    IF pg_catalog.right(name, 1) = '"' THEN
        RETURN pg_catalog.left(name, -1) || '_consumers"';
    END IF;
    RETURN name || '_consumers';
END $$;

CREATE FUNCTION topic.drop(topic regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.colibri_topic_partitions(topic);
    EXECUTE pg_catalog.format('DROP TABLE %s, %s', topic, topic.consumers(topic));
END $$;

CREATE FUNCTION topic.put(topic regclass, key text, payload text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE pg_catalog.format('INSERT INTO %s (key, payload) VALUES (%L, %L)', topic, key, payload);
END $$;

CREATE FUNCTION topic.put(topic regclass, keys text[], payloads text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    kind text;
BEGIN
    IF pg_catalog.cardinality(keys) <> pg_catalog.cardinality(payloads) THEN
        RAISE array_subscript_error USING MESSAGE = 'there must be as many keys as payloads';
    END IF;
    SELECT pg_catalog.format_type(a.atttypid, a.atttypmod) INTO kind
        FROM pg_catalog.pg_attribute a WHERE a.attrelid = topic AND a.attname = 'payload';
    EXECUTE pg_catalog.format(
        'INSERT INTO %s (key, payload) SELECT m.key, m.payload::%s FROM ROWS FROM (unnest($1), unnest($2)) AS m (key, payload)',
        topic, kind) USING keys, payloads;
END $$;

CREATE FUNCTION topic.subscribe(topic regclass, consumer text, start text DEFAULT 'first') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF start NOT IN ('first', 'last') THEN
        RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('a consumer starts at first or last, not at %s', start);
    END IF;
    EXECUTE pg_catalog.format(
        'INSERT INTO %s (consumer, partition, committed) '
        'SELECT $1, p, CASE WHEN $2 THEN coalesce(pg_catalog.colibri_topic_last($3, p), 0) ELSE 0 END '
        'FROM pg_catalog.generate_series(0, $4 - 1) AS p ON CONFLICT DO NOTHING',
        topic.consumers(topic)) USING consumer, start = 'last', topic, pg_catalog.colibri_topic_partitions(topic);
END $$;

CREATE FUNCTION topic.read(topic regclass, consumer text, max integer DEFAULT 100, wait interval DEFAULT '0')
RETURNS TABLE (partition integer, "offset" bigint, key text, payload text, put_at timestamptz) LANGUAGE plpgsql AS $$
DECLARE
    place integer;
    done bigint;
    subscribed bigint;
BEGIN
    -- The partition with messages that was read least recently and that nobody else reads from.
    EXECUTE pg_catalog.format(
        'SELECT o.partition, o.committed FROM %s o '
        'WHERE o.consumer = $1 AND pg_catalog.colibri_topic_last($2, o.partition) > o.committed '
        'ORDER BY o.committed_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED', topic.consumers(topic))
        INTO place, done USING consumer, topic;
    IF place IS NULL THEN
        EXECUTE pg_catalog.format('SELECT count(*) FROM %s o WHERE o.consumer = $1', topic.consumers(topic))
            INTO subscribed USING consumer;
        IF subscribed < pg_catalog.colibri_topic_partitions(topic) THEN
            PERFORM topic.subscribe(topic, consumer);
            RETURN QUERY SELECT * FROM topic.read(topic, consumer, max, wait);
            RETURN;
        END IF;
        PERFORM pg_catalog.colibri_topic_wait(topic, pg_catalog.statement_timestamp() + wait);
        RETURN;
    END IF;
    RETURN QUERY EXECUTE pg_catalog.format(
        'SELECT m.partition, m."offset", m.key::text, m.payload::text, m.put_at FROM %s m '
        'WHERE m.partition = $1 AND m."offset" > $2 AND m."offset" <= $3 ORDER BY m."offset" LIMIT $4', topic)
        USING place, done, pg_catalog.colibri_topic_last(topic, place), max;
END $$;

CREATE FUNCTION topic.commit(topic regclass, consumer text, partition integer, "offset" bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    changed bigint;
BEGIN
    EXECUTE pg_catalog.format(
        'UPDATE %s o SET committed = greatest(o.committed, $3), committed_at = pg_catalog.clock_timestamp() '
        'WHERE o.consumer = $1 AND o.partition = $2', topic.consumers(topic))
        USING consumer, partition, "offset";
    GET DIAGNOSTICS changed = ROW_COUNT;
    IF changed = 0 THEN
        RAISE no_data_found USING MESSAGE = pg_catalog.format('consumer "%s" does not read partition %s of %s', consumer, partition, topic);
    END IF;
END $$;

CREATE FUNCTION topic.seek(topic regclass, consumer text, partition integer, "offset" bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE pg_catalog.format(
        'INSERT INTO %s AS o (consumer, partition, committed) VALUES ($1, $2, $3) '
        'ON CONFLICT (consumer, partition) DO UPDATE SET committed = $3, committed_at = pg_catalog.clock_timestamp()',
        topic.consumers(topic)) USING consumer, partition, "offset";
END $$;

CREATE FUNCTION topic.lag(topic regclass)
RETURNS TABLE (consumer text, partition integer, committed bigint, first bigint, last bigint, lag bigint, committed_at timestamptz)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE pg_catalog.format(
        'SELECT o.consumer, o.partition, o.committed, e.first, e.last, '
        'greatest(e.last - greatest(o.committed, e.first - 1), 0), o.committed_at FROM %s o, '
        'LATERAL (SELECT coalesce(pg_catalog.colibri_topic_first($1, o.partition), 1) AS first, '
        'coalesce(pg_catalog.colibri_topic_last($1, o.partition), 0) AS last) e ORDER BY 1, 2',
        topic.consumers(topic)) USING topic;
END $$;

CREATE FUNCTION topic.trim(topic regclass) RETURNS void LANGUAGE sql AS 'SELECT pg_catalog.colibri_topic_trim(topic)';

CREATE FUNCTION topic.trim(topic regclass, partition integer, below bigint) RETURNS void LANGUAGE sql
AS 'SELECT pg_catalog.colibri_topic_trim(topic, partition, below)';

CREATE FUNCTION topic.channel(topic regclass) RETURNS text LANGUAGE sql AS 'SELECT pg_catalog.colibri_topic_channel(topic)';

GRANT USAGE ON SCHEMA topic TO PUBLIC;
