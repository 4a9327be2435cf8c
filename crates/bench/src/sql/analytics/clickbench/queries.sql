-- The 43 questions of ClickBench, of page views. Where rows may come in more than one order, further columns decide
-- it. The place of a referer is its beginning, where ClickBench takes its host by a regular expression.

-- q1
SELECT count(*) FROM hits;

-- q2
SELECT count(*) FROM hits WHERE adv_engine_id <> 0;

-- q3
SELECT sum(adv_engine_id), count(*), avg(resolution_width) FROM hits;

-- q4
SELECT avg(user_id) FROM hits;

-- q5
SELECT count(DISTINCT user_id) FROM hits;

-- q6
SELECT count(DISTINCT search_phrase) FROM hits;

-- q7
SELECT min(event_date), max(event_date) FROM hits;

-- q8
SELECT adv_engine_id, count(*) AS views FROM hits WHERE adv_engine_id <> 0 GROUP BY adv_engine_id ORDER BY views DESC, adv_engine_id;

-- q9
SELECT region_id, count(DISTINCT user_id) AS users FROM hits GROUP BY region_id ORDER BY users DESC, region_id LIMIT 10;

-- q10
SELECT region_id, sum(adv_engine_id), count(*) AS views, avg(resolution_width), count(DISTINCT user_id) FROM hits
    GROUP BY region_id ORDER BY views DESC, region_id LIMIT 10;

-- q11
SELECT mobile_phone_model, count(DISTINCT user_id) AS users FROM hits WHERE mobile_phone_model <> ''
    GROUP BY mobile_phone_model ORDER BY users DESC, mobile_phone_model LIMIT 10;

-- q12
SELECT mobile_phone, mobile_phone_model, count(DISTINCT user_id) AS users FROM hits WHERE mobile_phone_model <> ''
    GROUP BY mobile_phone, mobile_phone_model ORDER BY users DESC, mobile_phone, mobile_phone_model LIMIT 10;

-- q13
SELECT search_phrase, count(*) AS views FROM hits WHERE search_phrase <> ''
    GROUP BY search_phrase ORDER BY views DESC, search_phrase LIMIT 10;

-- q14
SELECT search_phrase, count(DISTINCT user_id) AS users FROM hits WHERE search_phrase <> ''
    GROUP BY search_phrase ORDER BY users DESC, search_phrase LIMIT 10;

-- q15
SELECT search_engine_id, search_phrase, count(*) AS views FROM hits WHERE search_phrase <> ''
    GROUP BY search_engine_id, search_phrase ORDER BY views DESC, search_engine_id, search_phrase LIMIT 10;

-- q16
SELECT user_id, count(*) AS views FROM hits GROUP BY user_id ORDER BY views DESC, user_id LIMIT 10;

-- q17
SELECT user_id, search_phrase, count(*) AS views FROM hits GROUP BY user_id, search_phrase
    ORDER BY views DESC, user_id, search_phrase LIMIT 10;

-- q18, rows are counted
SELECT user_id, search_phrase, count(*) FROM hits GROUP BY user_id, search_phrase LIMIT 10;

-- q19
SELECT user_id, extract(minute FROM event_time) AS minute, search_phrase, count(*) AS views FROM hits
    GROUP BY user_id, extract(minute FROM event_time), search_phrase
    ORDER BY views DESC, user_id, minute, search_phrase LIMIT 10;

-- q20
SELECT user_id FROM hits WHERE user_id = 435090932899640449;

-- q21
SELECT count(*) FROM hits WHERE url LIKE '%google%';

-- q22
SELECT search_phrase, min(url), count(*) AS views FROM hits WHERE url LIKE '%google%' AND search_phrase <> ''
    GROUP BY search_phrase ORDER BY views DESC, search_phrase LIMIT 10;

-- q23
SELECT search_phrase, min(url), min(title), count(*) AS views, count(DISTINCT user_id) FROM hits
    WHERE title LIKE '%Google%' AND url NOT LIKE '%.google.%' AND search_phrase <> ''
    GROUP BY search_phrase ORDER BY views DESC, search_phrase LIMIT 10;

-- q24
SELECT * FROM hits WHERE url LIKE '%google%' ORDER BY event_time, watch_id LIMIT 10;

-- q25
SELECT search_phrase FROM hits WHERE search_phrase <> '' ORDER BY event_time, watch_id LIMIT 10;

-- q26
SELECT search_phrase FROM hits WHERE search_phrase <> '' ORDER BY search_phrase LIMIT 10;

-- q27
SELECT search_phrase FROM hits WHERE search_phrase <> '' ORDER BY event_time, search_phrase LIMIT 10;

-- q28
SELECT counter_id, avg(length(url)) AS mean, count(*) AS views FROM hits WHERE url <> ''
    GROUP BY counter_id HAVING count(*) > 1000 ORDER BY mean DESC, counter_id LIMIT 25;

-- q29
SELECT substr(referer, 1, 24) AS place, avg(length(referer)) AS mean, count(*) AS views, min(referer) FROM hits
    WHERE referer <> '' GROUP BY substr(referer, 1, 24) HAVING count(*) > 1000 ORDER BY mean DESC, place LIMIT 25;

-- q30
SELECT sum(resolution_width), sum(resolution_width + 1), sum(resolution_width + 2), sum(resolution_width + 3),
    sum(resolution_width + 4), sum(resolution_width + 5), sum(resolution_width + 6), sum(resolution_width + 7),
    sum(resolution_width + 8), sum(resolution_width + 9), sum(resolution_width + 10), sum(resolution_width + 11),
    sum(resolution_width + 12), sum(resolution_width + 13), sum(resolution_width + 14), sum(resolution_width + 15),
    sum(resolution_width + 16), sum(resolution_width + 17), sum(resolution_width + 18), sum(resolution_width + 19),
    sum(resolution_width + 20), sum(resolution_width + 21), sum(resolution_width + 22), sum(resolution_width + 23),
    sum(resolution_width + 24), sum(resolution_width + 25), sum(resolution_width + 26), sum(resolution_width + 27),
    sum(resolution_width + 28), sum(resolution_width + 29), sum(resolution_width + 30), sum(resolution_width + 31),
    sum(resolution_width + 32), sum(resolution_width + 33), sum(resolution_width + 34), sum(resolution_width + 35),
    sum(resolution_width + 36), sum(resolution_width + 37), sum(resolution_width + 38), sum(resolution_width + 39),
    sum(resolution_width + 40), sum(resolution_width + 41), sum(resolution_width + 42), sum(resolution_width + 43),
    sum(resolution_width + 44), sum(resolution_width + 45), sum(resolution_width + 46), sum(resolution_width + 47),
    sum(resolution_width + 48), sum(resolution_width + 49), sum(resolution_width + 50), sum(resolution_width + 51),
    sum(resolution_width + 52), sum(resolution_width + 53), sum(resolution_width + 54), sum(resolution_width + 55),
    sum(resolution_width + 56), sum(resolution_width + 57), sum(resolution_width + 58), sum(resolution_width + 59),
    sum(resolution_width + 60), sum(resolution_width + 61), sum(resolution_width + 62), sum(resolution_width + 63),
    sum(resolution_width + 64), sum(resolution_width + 65), sum(resolution_width + 66), sum(resolution_width + 67),
    sum(resolution_width + 68), sum(resolution_width + 69), sum(resolution_width + 70), sum(resolution_width + 71),
    sum(resolution_width + 72), sum(resolution_width + 73), sum(resolution_width + 74), sum(resolution_width + 75),
    sum(resolution_width + 76), sum(resolution_width + 77), sum(resolution_width + 78), sum(resolution_width + 79),
    sum(resolution_width + 80), sum(resolution_width + 81), sum(resolution_width + 82), sum(resolution_width + 83),
    sum(resolution_width + 84), sum(resolution_width + 85), sum(resolution_width + 86), sum(resolution_width + 87),
    sum(resolution_width + 88), sum(resolution_width + 89)
    FROM hits;

-- q31
SELECT search_engine_id, client_ip, count(*) AS views, sum(is_refresh), avg(resolution_width) FROM hits
    WHERE search_phrase <> '' GROUP BY search_engine_id, client_ip
    ORDER BY views DESC, search_engine_id, client_ip LIMIT 10;

-- q32
SELECT watch_id, client_ip, count(*) AS views, sum(is_refresh), avg(resolution_width) FROM hits
    WHERE search_phrase <> '' GROUP BY watch_id, client_ip ORDER BY views DESC, watch_id, client_ip LIMIT 10;

-- q33
SELECT watch_id, client_ip, count(*) AS views, sum(is_refresh), avg(resolution_width) FROM hits
    GROUP BY watch_id, client_ip ORDER BY views DESC, watch_id, client_ip LIMIT 10;

-- q34
SELECT url, count(*) AS views FROM hits GROUP BY url ORDER BY views DESC, url LIMIT 10;

-- q35
SELECT 1, url, count(*) AS views FROM hits GROUP BY 1, url ORDER BY views DESC, url LIMIT 10;

-- q36
SELECT client_ip, client_ip - 1, client_ip - 2, client_ip - 3, count(*) AS views FROM hits
    GROUP BY client_ip, client_ip - 1, client_ip - 2, client_ip - 3 ORDER BY views DESC, client_ip LIMIT 10;

-- q37
SELECT url, count(*) AS views FROM hits WHERE counter_id = 62 AND event_date >= date '2013-07-01' AND event_date <= date '2013-07-31'
    AND dont_count_hits = 0 AND is_refresh = 0 AND url <> '' GROUP BY url ORDER BY views DESC, url LIMIT 10;

-- q38
SELECT title, count(*) AS views FROM hits WHERE counter_id = 62 AND event_date >= date '2013-07-01' AND event_date <= date '2013-07-31'
    AND dont_count_hits = 0 AND is_refresh = 0 AND title <> '' GROUP BY title ORDER BY views DESC, title LIMIT 10;

-- q39
SELECT url, count(*) AS views FROM hits WHERE counter_id = 62 AND event_date >= date '2013-07-01' AND event_date <= date '2013-07-31'
    AND is_refresh = 0 AND is_link <> 0 AND is_download = 0 GROUP BY url ORDER BY views DESC, url LIMIT 10 OFFSET 20;

-- q40
SELECT traffic_source_id, search_engine_id, adv_engine_id,
    CASE WHEN search_engine_id = 0 AND adv_engine_id = 0 THEN referer ELSE '' END AS source, url, count(*) AS views FROM hits
    WHERE counter_id = 62 AND event_date >= date '2013-07-01' AND event_date <= date '2013-07-31' AND is_refresh = 0
    GROUP BY traffic_source_id, search_engine_id, adv_engine_id,
        CASE WHEN search_engine_id = 0 AND adv_engine_id = 0 THEN referer ELSE '' END, url
    ORDER BY views DESC, traffic_source_id, search_engine_id, adv_engine_id, source, url LIMIT 10 OFFSET 100;

-- q41
SELECT url_hash, event_date, count(*) AS views FROM hits WHERE counter_id = 62 AND event_date >= date '2013-07-01' AND event_date <= date '2013-07-31'
    AND is_refresh = 0 AND traffic_source_id IN (-1, 6) AND referer_hash = 3594120000172545465
    GROUP BY url_hash, event_date ORDER BY views DESC, url_hash, event_date LIMIT 10 OFFSET 10;

-- q42
SELECT window_client_width, window_client_height, count(*) AS views FROM hits WHERE counter_id = 62 AND event_date >= date '2013-07-01' AND event_date <= date '2013-07-31'
    AND is_refresh = 0 AND dont_count_hits = 0 AND url_hash = 2868770270353813622
    GROUP BY window_client_width, window_client_height
    ORDER BY views DESC, window_client_width, window_client_height LIMIT 10;

-- q43
SELECT date_trunc('minute', event_time) AS minute, count(*) AS views FROM hits
    WHERE counter_id = 62 AND event_date >= date '2013-07-14' AND event_date <= date '2013-07-15'
    AND is_refresh = 0 AND dont_count_hits = 0 GROUP BY date_trunc('minute', event_time) ORDER BY minute LIMIT 10 OFFSET 100;
