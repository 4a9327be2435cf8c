-- The columns of a table of page views that the queries look at.
CREATE TABLE hits (
    watch_id bigint NOT NULL, is_refresh smallint NOT NULL, title text NOT NULL, event_time timestamp NOT NULL,
    event_date date NOT NULL, counter_id int NOT NULL, client_ip int NOT NULL, region_id int NOT NULL,
    user_id bigint NOT NULL, url text NOT NULL, referer text NOT NULL, resolution_width smallint NOT NULL,
    mobile_phone smallint NOT NULL, mobile_phone_model text NOT NULL, traffic_source_id smallint NOT NULL,
    search_engine_id smallint NOT NULL, search_phrase text NOT NULL, adv_engine_id smallint NOT NULL,
    window_client_width smallint NOT NULL, window_client_height smallint NOT NULL, is_link smallint NOT NULL,
    is_download smallint NOT NULL, dont_count_hits smallint NOT NULL, referer_hash bigint NOT NULL,
    url_hash bigint NOT NULL, PRIMARY KEY (counter_id, event_date, user_id, event_time, watch_id)
);
