PREPARE long_one AS SELECT count(*) FROM big a, big b WHERE a.i * b.i = -1;
