drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers
create table pgbench_history(tid int,bid int,aid    int,delta int,mtime timestamp,filler char(22))
create table pgbench_tellers(tid int not null,bid int,tbalance int,filler char(84)) with (fillfactor=100)
create table pgbench_accounts(aid    int not null,bid int,abalance int,filler char(84)) with (fillfactor=100)
create table pgbench_branches(bid int not null,bbalance int,filler char(88)) with (fillfactor=100)
begin
truncate table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers
insert into pgbench_branches(bid,bbalance) values(1,0)
insert into pgbench_tellers(tid,bid,tbalance) values (1,1,0)
insert into pgbench_tellers(tid,bid,tbalance) values (2,1,0)
copy pgbench_accounts from stdin with (freeze on)
commit
vacuum analyze pgbench_branches
vacuum analyze pgbench_tellers
vacuum analyze pgbench_accounts
vacuum analyze pgbench_history
alter table pgbench_branches add primary key (bid)
alter table pgbench_tellers add primary key (tid)
alter table pgbench_accounts add primary key (aid)
alter table pgbench_tellers add constraint pgbench_tellers_bid_fkey foreign key (bid) references pgbench_branches
alter table pgbench_accounts add constraint pgbench_accounts_bid_fkey foreign key (bid) references pgbench_branches
alter table pgbench_history add constraint pgbench_history_bid_fkey foreign key (bid) references pgbench_branches
alter table pgbench_history add constraint pgbench_history_tid_fkey foreign key (tid) references pgbench_tellers
alter table pgbench_history add constraint pgbench_history_aid_fkey foreign key (aid) references pgbench_accounts
select count(*) from pgbench_branches
select o.n, p.partstrat, pg_catalog.count(i.inhparent) from pg_catalog.pg_class as c join pg_catalog.pg_namespace as n on (n.oid = c.relnamespace) cross join lateral (select pg_catalog.array_position(pg_catalog.current_schemas(true), n.nspname)) as o(n) left join pg_catalog.pg_partitioned_table as p on (p.partrelid = c.oid) left join pg_catalog.pg_inherits as i on (c.oid = i.inhparent) where c.relname = 'pgbench_accounts' and o.n is not null group by 1, 2 order by 1 asc limit 1
vacuum pgbench_branches
vacuum pgbench_tellers
truncate pgbench_history
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + 2852 WHERE aid = 3;
SELECT abalance FROM pgbench_accounts WHERE aid = 3;
UPDATE pgbench_tellers SET tbalance = tbalance + 2852 WHERE tid = 2;
UPDATE pgbench_branches SET bbalance = bbalance + 2852 WHERE bid = 1;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (2, 1, 3, 2852, CURRENT_TIMESTAMP);
END;
