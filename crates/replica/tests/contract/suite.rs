//! The tests themselves.

use std::task::{Context, Poll};
use std::time::Duration;

use colibri_replica::coordinator::{Get, Revision, WatchEvent};
use colibri_replica::{
    Campaign, Chain, Compaction, Compactor, FollowError, Held, Instance, JoinError, JoinOptions, Outcome, Point,
    Position, Replace, Reservation, Resigned, Resolution, Seen, Trimmed,
};

use crate::support::{
    Bed, TTL, all, append, cluster, db, elected, elected_in_time, join, join_only, node, run, take, texts,
};

/// Names each test once, for every implementation.
macro_rules! for_each_test {
    ($callback:ident) => {
        $callback! {
            records_come_back_once_and_in_order
            an_old_leader_appends_nothing_after_its_lease_has_expired
            an_unknown_append_that_arrived_is_committed_and_is_not_repeated
            an_unknown_append_that_did_not_arrive_is_repeated
            an_unknown_append_under_a_new_leader_is_resolved_for_good
            appends_under_way_together_leave_no_gap
            a_position_is_taken_once
            a_large_record_is_seen_whole_or_not_at_all
            parts_that_a_dead_leader_left_are_passed_over
            a_watch_over_a_cut_connection_has_no_gap
            a_follower_that_slept_through_a_compaction_misses_nothing
            a_watch_from_a_compacted_revision_is_told_so
            trimming_keeps_what_two_nodes_do_not_hold
            a_base_that_is_withdrawn_while_the_log_is_trimmed_stops_it
            an_old_leader_trims_nothing
            a_follower_below_the_trim_point_is_told_so
            a_node_with_another_history_is_told_so
            a_leadership_is_handed_over_to_its_successor
            a_leadership_that_is_being_resigned_is_not_taken_up_again
            a_lease_counts_from_the_sending_of_its_keepalive
            a_node_name_is_held_once
            leaders_and_members_are_observed_across_a_cut
            one_node_of_a_cluster_compacts
            names_of_any_kind_keep_their_databases_apart
        }
    };
}
pub(crate) use for_each_test;

pub(crate) fn records_come_back_once_and_in_order(bed: &mut dyn Bed) {
    let leader = join(bed, "n1");
    let reader = cluster(bed, "reader");
    run(bed, async move {
        let leadership = elected(&leader).await;
        assert!(leadership.confirm().await.unwrap());
        let mut appender = leadership.appender().await.unwrap();
        let mut follower = reader.follow(&db(), reader.start(&db()));
        for n in 0..40 {
            append(&mut appender, format!("r{n}").as_bytes()).await;
        }
        // Some are read, some watched.
        let mut records = take(&mut follower, 20).await;
        append(&mut appender, b"").await;
        records.extend(take(&mut follower, 21).await);
        let mut expected: Vec<String> = (0..40).map(|n| format!("r{n}")).collect();
        expected.push(String::new());
        assert_eq!(texts(&records), expected);
        assert_eq!(records.last().unwrap().end, appender.point());
        assert!(records.iter().all(|record| record.epoch == leadership.epoch()));
        let range = reader.log_range(&db()).await.unwrap();
        assert_eq!((range.first, range.end), (Position::FIRST, appender.point()));
        assert_eq!(range.bytes, records.iter().map(|record| record.bytes.len() as u64 + 40).sum::<u64>());
        assert_eq!(range.last_epoch, Some(leadership.epoch()));
    });
}

pub(crate) fn an_old_leader_appends_nothing_after_its_lease_has_expired(bed: &mut dyn Bed) {
    let (old, new) = (join_only(bed, "old"), join(bed, "new"));
    run(bed, async move {
        let first = elected(&old).await;
        let mut appender = first.appender().await.unwrap();
        append(&mut appender, b"before").await;
        assert!(matches!(new.campaign(&db(), Reservation::Heed).await.unwrap(), Campaign::Led(_)));
        let second = elected_in_time(&new).await;
        assert!(second.epoch() > first.epoch());
        assert!(old.lease_left().is_zero(), "it knows by its own clock");
        // It does not look at its clock, and the position is free: only the compare is in its way.
        let late = appender.stage(b"late");
        match late.append().await {
            Outcome::Fenced { leader: Some(leader) } => assert_eq!(leader.epoch, second.epoch()),
            other => panic!("{other:?}"),
        }
        assert!(!first.confirm().await.unwrap());
        let mut appender = second.appender().await.unwrap();
        append(&mut appender, b"after").await;
        assert!(matches!(late.append().await, Outcome::Fenced { .. }));
        assert_eq!(texts(&all(new.cluster()).await), ["before", "after"]);
    });
}

/// What became of an append, asked until there is an answer: the connection may have to be made
/// anew first.
async fn resolved(staged: &colibri_replica::Staged) -> Resolution {
    loop {
        if let Ok(resolution) = staged.resolve().await {
            return resolution;
        }
    }
}

pub(crate) fn an_unknown_append_that_arrived_is_committed_and_is_not_repeated(bed: &mut dyn Bed) {
    let leader = join(bed, "n1");
    let mut appender = run(bed, async move { elected(&leader).await.appender().await.unwrap() });
    let staged = std::rc::Rc::new(appender.stage(b"once"));
    bed.lose_answers("n1");
    let sent = staged.clone();
    let outcome = run(bed, async move { sent.append().await });
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    bed.heal("n1");
    let reader = cluster(bed, "reader");
    run(bed, async move {
        assert_eq!(resolved(&staged).await, Resolution::Committed);
        assert_eq!(staged.append().await, Outcome::Appended);
        append(&mut appender, b"next").await;
        assert_eq!(texts(&all(&reader).await), ["once", "next"]);
    });
}

pub(crate) fn an_unknown_append_that_did_not_arrive_is_repeated(bed: &mut dyn Bed) {
    let leader = join(bed, "n1");
    let mut appender = run(bed, async move { elected(&leader).await.appender().await.unwrap() });
    let staged = std::rc::Rc::new(appender.stage(b"once"));
    bed.cut("n1");
    let sent = staged.clone();
    let outcome = run(bed, async move { sent.append().await });
    assert!(matches!(outcome, Outcome::Unknown(_) | Outcome::NotSent(_)), "{outcome:?}");
    bed.heal("n1");
    let reader = cluster(bed, "reader");
    run(bed, async move {
        assert_eq!(resolved(&staged).await, Resolution::Repeat);
        assert_eq!(staged.append().await, Outcome::Appended);
        assert_eq!(staged.resolve().await.unwrap(), Resolution::Committed);
        assert_eq!(texts(&all(&reader).await), ["once"]);
    });
}

pub(crate) fn an_unknown_append_under_a_new_leader_is_resolved_for_good(bed: &mut dyn Bed) {
    let (old, new) = (join_only(bed, "old"), join(bed, "new"));
    run(bed, async move {
        let leadership = elected(&old).await;
        let mut appender = leadership.appender().await.unwrap();
        append(&mut appender, b"base").await;
        let arrived = appender.stage(b"arrived");
        assert_eq!(arrived.append().await, Outcome::Appended);
        let never = appender.stage(b"never");
        let successor = elected_in_time(&new).await;
        assert_eq!(arrived.resolve().await.unwrap(), Resolution::Committed);
        assert!(matches!(never.resolve().await.unwrap(), Resolution::Never { leader: Some(_) }));
        // The new leader takes the position, and trims: now only a base can tell.
        let mut appender = successor.appender().await.unwrap();
        append(&mut appender, b"other").await;
        assert!(matches!(never.resolve().await.unwrap(), Resolution::Never { .. }));
        append(&mut appender, b"last").await;
        let held = Held::elsewhere(appender.point());
        assert!(matches!(successor.trim(&held).await.unwrap(), Trimmed::Done { .. }));
        assert_eq!(arrived.resolve().await.unwrap(), Resolution::Trimmed);
        assert_eq!(never.append().await, Outcome::Trimmed);
    });
}

pub(crate) fn appends_under_way_together_leave_no_gap(bed: &mut dyn Bed) {
    let leader = join(bed, "n1");
    run(bed, async move {
        let mut appender = elected(&leader).await.appender().await.unwrap();
        append(&mut appender, b"0").await;
        let staged: Vec<_> = (1..=8).map(|n| appender.stage(n.to_string().as_bytes())).collect();
        // The last one first: nothing may be appended behind a gap.
        assert_eq!(staged[7].append().await, Outcome::Gap { missing: Position(8) });
        let mut waiting: Vec<_> = (0..8).collect();
        while !waiting.is_empty() {
            let mut pending: Vec<_> = waiting.iter().map(|&n| (n, Box::pin(staged[n].append()))).collect();
            let mut outcomes = Vec::new();
            // All at once.
            std::future::poll_fn(|context| {
                pending.retain_mut(|(n, future)| match future.as_mut().poll(context) {
                    Poll::Ready(outcome) => {
                        outcomes.push((*n, outcome));
                        false
                    }
                    Poll::Pending => true,
                });
                if pending.is_empty() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            waiting = outcomes
                .into_iter()
                .filter_map(|(n, outcome)| match outcome {
                    Outcome::Appended => None,
                    Outcome::Gap { .. } => Some(n),
                    other => panic!("{other:?}"),
                })
                .collect();
        }
        let expected: Vec<String> = (0..=8).map(|n: u32| n.to_string()).collect();
        assert_eq!(texts(&all(leader.cluster()).await), expected);
    });
}

pub(crate) fn a_position_is_taken_once(bed: &mut dyn Bed) {
    let leader = join(bed, "n1");
    run(bed, async move {
        let leadership = elected(&leader).await;
        // Two appenders of one leadership: a mistake that is told, and not obeyed.
        let (mut one, mut other) = (leadership.appender().await.unwrap(), leadership.appender().await.unwrap());
        append(&mut one, b"one").await;
        match other.stage(b"other").append().await {
            Outcome::Taken { position, epoch, chain } => {
                assert_eq!((position, epoch), (Position(1), leadership.epoch()));
                assert_eq!(chain, one.point().chain);
            }
            outcome => panic!("{outcome:?}"),
        }
        // The leadership again, as after an unknown campaign: the same epoch.
        assert_eq!(elected(&leader).await.epoch(), leadership.epoch());
        assert_eq!(texts(&all(leader.cluster()).await), ["one"]);
    });
}

pub(crate) fn a_large_record_is_seen_whole_or_not_at_all(bed: &mut dyn Bed) {
    let leader = join(bed, "n1");
    let size = bed.entry_bytes_max() * 4;
    run(bed, async move {
        let leadership = elected(&leader).await;
        let mut appender = leadership.appender().await.unwrap();
        append(&mut appender, b"small").await;
        let large: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
        let staged = appender.stage(&large);
        assert_eq!(staged.entry_count(), 5, "four entries and their headers");
        let mut follower = leader.cluster().follow(&db(), leader.cluster().start(&db()));
        assert_eq!(texts(&take(&mut follower, 1).await), ["small"]);
        assert_eq!(staged.append().await, Outcome::Appended);
        let record = follower.next().await.unwrap();
        assert_eq!((record.position, record.end), (staged.position(), staged.end()));
        assert!(record.bytes == large);
        append(&mut appender, b"behind").await;
        assert_eq!(follower.next().await.unwrap().bytes, b"behind");
    });
}

pub(crate) fn parts_that_a_dead_leader_left_are_passed_over(bed: &mut dyn Bed) {
    let (old, new) = (join_only(bed, "old"), join(bed, "new"));
    let reader = cluster(bed, "reader");
    let size = bed.entry_bytes_max() * 2;
    run(bed, async move {
        let leadership = elected(&old).await;
        let mut appender = leadership.appender().await.unwrap();
        append(&mut appender, b"before").await;
        let mut follower = reader.follow(&db(), reader.start(&db()));
        assert_eq!(texts(&take(&mut follower, 1).await), ["before"]);
        let point = follower.point();
        // The leader dies when its first part is out: the future is polled once, which sends that
        // part, and dropped.
        let unfinished = appender.stage(&vec![b'x'; size]);
        let mut sending = Box::pin(unfinished.append());
        let is_pending = |context: &mut Context<'_>| Poll::Ready(sending.as_mut().poll(context).is_pending());
        assert!(std::future::poll_fn(is_pending).await);
        drop(sending);
        while reader.log_range(&db()).await.unwrap().end.next != Position(3) {}
        // The follower sees the part, and gives no record.
        assert_eq!(follower.next_if_there().await.unwrap(), None);
        assert_eq!(follower.point().next, Position(3));
        let successor = elected_in_time(&new).await;
        let mut appender = successor.appender().await.unwrap();
        assert!(appender.point().next < unfinished.end().next, "the record is unfinished");
        // The dead leader's next part is fenced.
        assert!(matches!(unfinished.append().await, Outcome::Fenced { .. }));
        append(&mut appender, b"after").await;
        append(&mut appender, &vec![b'y'; size]).await;
        // For one who was watching, for one who comes from the point before, and from the start.
        let records = take(&mut follower, 2).await;
        assert_eq!((&records[0].bytes[..], records[1].bytes.len()), (&b"after"[..], size));
        let mut again = reader.follow(&db(), point);
        assert_eq!(take(&mut again, 2).await, records);
        assert_eq!(all(&reader).await.len(), 3);
        // A trim point inside the abandoned record harms nobody who is behind it.
        assert!(matches!(successor.trim(&Held::elsewhere(records[0].end)).await.unwrap(), Trimmed::Done { .. }));
        let mut again = reader.follow(&db(), records[0].end);
        assert_eq!(take(&mut again, 1).await, records[1..]);
    });
}

pub(crate) fn a_watch_over_a_cut_connection_has_no_gap(bed: &mut dyn Bed) {
    let leader = join(bed, "n1");
    let reader = cluster(bed, "reader");
    let (mut appender, mut follower) = run(bed, async move {
        let mut appender = elected(&leader).await.appender().await.unwrap();
        append(&mut appender, b"0").await;
        let mut follower = reader.follow(&db(), reader.start(&db()));
        assert_eq!(texts(&take(&mut follower, 1).await), ["0"]);
        assert!(follower.is_current());
        append(&mut appender, b"1").await;
        assert_eq!(texts(&take(&mut follower, 1).await), ["1"]);
        (appender, follower)
    });
    for round in 0..3 {
        bed.cut("reader");
        appender = run(bed, async move {
            for n in 0..20 {
                append(&mut appender, format!("{round}.{n}").as_bytes()).await;
            }
            appender
        });
        bed.pass(Duration::from_millis(300));
        bed.heal("reader");
        (appender, follower) = run(bed, async move {
            append(&mut appender, b"healed").await;
            let mut expected: Vec<String> = (0..20).map(|n| format!("{round}.{n}")).collect();
            expected.push("healed".to_owned());
            assert_eq!(texts(&take(&mut follower, 21).await), expected);
            assert_eq!(follower.point(), appender.point());
            (appender, follower)
        });
    }
}

pub(crate) fn a_follower_that_slept_through_a_compaction_misses_nothing(bed: &mut dyn Bed) {
    let leader = join(bed, "n1");
    let reader = cluster(bed, "reader");
    let (mut appender, mut follower) = run(bed, async move {
        let mut appender = elected(&leader).await.appender().await.unwrap();
        append(&mut appender, b"0").await;
        let mut follower = reader.follow(&db(), reader.start(&db()));
        assert_eq!(texts(&take(&mut follower, 1).await), ["0"]);
        (appender, follower)
    });
    bed.cut("reader");
    appender = run(bed, async move {
        for n in 1..30 {
            append(&mut appender, n.to_string().as_bytes()).await;
        }
        appender
    });
    bed.compact();
    bed.pass(Duration::from_millis(300));
    bed.heal("reader");
    run(bed, async move {
        append(&mut appender, b"30").await;
        let expected: Vec<String> = (1..=30).map(|n| n.to_string()).collect();
        assert_eq!(texts(&take(&mut follower, 30).await), expected);
    });
}

pub(crate) fn a_watch_from_a_compacted_revision_is_told_so(bed: &mut dyn Bed) {
    let leader = join(bed, "n1");
    let (leader, mut appender) = run(bed, async move {
        let mut appender = elected(&leader).await.appender().await.unwrap();
        append(&mut appender, b"0").await;
        append(&mut appender, b"1").await;
        (leader, appender)
    });
    bed.compact();
    run(bed, async move {
        let service = leader.cluster().coordinator();
        let keys = b"/colibri/".to_vec()..b"/colibri0".to_vec();
        let mut watch = service.watch(keys.clone(), Revision(1));
        let event = std::future::poll_fn(|context| watch.poll_next(context)).await;
        assert_eq!(event, WatchEvent::Compacted);
        // From the state that is there on, it works.
        let newest = service.get(Get::key(b"none")).await.unwrap().revision;
        let mut watch = service.watch(keys, Revision(newest.0 + 1));
        append(&mut appender, b"2").await;
        let event = std::future::poll_fn(|context| watch.poll_next(context)).await;
        assert!(matches!(event, WatchEvent::Changes(changes) if changes.len() == 1));
    });
}

pub(crate) fn trimming_keeps_what_two_nodes_do_not_hold(bed: &mut dyn Bed) {
    let (n1, n2, n3) = (join(bed, "n1"), join(bed, "n2"), join(bed, "n3"));
    run(bed, async move {
        let leadership = elected(&n1).await;
        let mut appender = leadership.appender().await.unwrap();
        let mut points = vec![appender.point()];
        for n in 0..9 {
            append(&mut appender, &[b'0' + n]).await;
            points.push(appender.point());
        }
        assert!(n1.publish_base(&db(), points[8]).await.unwrap());
        assert_eq!(n1.cluster().bases(&db()).await.unwrap().held_by(2), None, "one node is not two");
        assert!(n2.publish_base(&db(), points[3]).await.unwrap());
        assert!(n3.publish_base(&db(), points[5]).await.unwrap());
        let bases = n1.cluster().bases(&db()).await.unwrap();
        assert_eq!(bases.bases.iter().map(|base| base.node.address.as_str()).collect::<Vec<_>>().len(), 3);
        let held = bases.held_by(2).unwrap();
        assert_eq!(held.point(), points[5]);
        assert_eq!(leadership.trim(&held).await.unwrap(), Trimmed::Done { bytes: 5 * 41 });
        assert_eq!(leadership.trim(&held).await.unwrap(), Trimmed::Nothing);
        let range = n1.cluster().log_range(&db()).await.unwrap();
        assert_eq!((range.first, range.bytes), (points[5].next, 4 * 41));
        // From the trim point on everything is there.
        let mut follower = n2.cluster().follow(&db(), points[5]);
        assert_eq!(texts(&take(&mut follower, 4).await), ["5", "6", "7", "8"]);
        // The end of the log is held by all: the last entry stays, and the chain goes on.
        for node in [&n1, &n2, &n3] {
            assert!(node.publish_base(&db(), appender.point()).await.unwrap());
        }
        let held = n1.cluster().bases(&db()).await.unwrap().held_by(3).unwrap();
        assert!(matches!(leadership.trim(&held).await.unwrap(), Trimmed::Done { .. }));
        assert_eq!(n1.cluster().log_range(&db()).await.unwrap().first, Position(9));
        let mut appender = leadership.appender().await.unwrap();
        append(&mut appender, b"9").await;
        assert_eq!(texts(&take(&mut follower, 1).await), ["9"]);
    });
}

pub(crate) fn a_base_that_is_withdrawn_while_the_log_is_trimmed_stops_it(bed: &mut dyn Bed) {
    let (n1, n2) = (join(bed, "n1"), join(bed, "n2"));
    run(bed, async move {
        let leadership = elected(&n1).await;
        let mut appender = leadership.appender().await.unwrap();
        for n in 0..4 {
            append(&mut appender, &[b'0' + n]).await;
        }
        for node in [&n1, &n2] {
            assert!(node.publish_base(&db(), appender.point()).await.unwrap());
        }
        let held = n1.cluster().bases(&db()).await.unwrap().held_by(2).unwrap();
        assert!(n1.cluster().withdraw_base(&db(), &n2.node().id).await.unwrap());
        assert!(!n1.cluster().withdraw_base(&db(), &n2.node().id).await.unwrap());
        assert_eq!(leadership.trim(&held).await.unwrap(), Trimmed::Changed);
        assert_eq!(texts(&all(n1.cluster()).await), ["0", "1", "2", "3"]);
    });
}

pub(crate) fn an_old_leader_trims_nothing(bed: &mut dyn Bed) {
    let (old, new) = (join_only(bed, "old"), join(bed, "new"));
    run(bed, async move {
        let leadership = elected(&old).await;
        let mut appender = leadership.appender().await.unwrap();
        for n in 0..4 {
            append(&mut appender, &[b'0' + n]).await;
        }
        let held = Held::elsewhere(appender.point());
        let successor = elected_in_time(&new).await;
        assert_eq!(leadership.trim(&held).await.unwrap(), Trimmed::Fenced);
        assert_eq!(texts(&all(new.cluster()).await), ["0", "1", "2", "3"]);
        assert!(matches!(successor.trim(&held).await.unwrap(), Trimmed::Done { .. }));
    });
}

pub(crate) fn a_follower_below_the_trim_point_is_told_so(bed: &mut dyn Bed) {
    let leader = join(bed, "n1");
    let reader = cluster(bed, "reader");
    let (leadership, mut appender, mut follower) = run(bed, async move {
        let leadership = elected(&leader).await;
        let mut appender = leadership.appender().await.unwrap();
        append(&mut appender, b"0").await;
        let mut follower = reader.follow(&db(), reader.start(&db()));
        take(&mut follower, 1).await;
        (leadership, appender, follower)
    });
    // It is cut while the log is trimmed beyond where it is.
    bed.cut("reader");
    run(bed, async move {
        for n in 1..6 {
            append(&mut appender, &[b'0' + n]).await;
        }
        assert!(matches!(leadership.trim(&Held::elsewhere(appender.point())).await.unwrap(), Trimmed::Done { .. }));
    });
    bed.pass(Duration::from_millis(300));
    bed.heal("reader");
    run(bed, async move {
        let told = follower.next().await.unwrap_err();
        assert_eq!(told, FollowError::Trimmed { first: Position(6), needed: Position(2) });
        assert_eq!(follower.next().await.unwrap_err(), told);
    });
}

pub(crate) fn a_node_with_another_history_is_told_so(bed: &mut dyn Bed) {
    let leader = join(bed, "n1");
    run(bed, async move {
        let cluster = leader.cluster();
        let mut appender = elected(&leader).await.appender().await.unwrap();
        for n in 0..3 {
            append(&mut appender, &[b'0' + n]).await;
        }
        let point = |next: u64, chain: u64| Point { next: Position(next), chain: Chain(chain) };
        // Another chain in the middle, another one at the end, and a node that has more than the
        // log.
        for wrong in [point(2, 1), point(4, 1), point(7, appender.point().chain.0)] {
            let told = cluster.follow(&db(), wrong).next().await.unwrap_err();
            assert!(matches!(told, FollowError::Diverged { position, .. } if position.0 == wrong.next.0 - 1), "{told}");
        }
        let told = cluster.follow(&db(), point(1, 99)).next().await.unwrap_err();
        assert!(matches!(told, FollowError::Diverged { position: Position(1), .. }), "{told}");
        // The log has another record at the end than what this node had under way.
        append(&mut appender, b"3").await;
        let told = cluster.follow(&db(), point(5, 1)).next().await.unwrap_err();
        assert!(matches!(told, FollowError::Diverged { position: Position(4), theirs: Some(_), .. }), "{told}");
    });
}

pub(crate) fn a_leadership_is_handed_over_to_its_successor(bed: &mut dyn Bed) {
    let (n1, n2, n3) = (join(bed, "n1"), join(bed, "n2"), join(bed, "n3"));
    run(bed, async move {
        let first = elected(&n1).await;
        assert_eq!(first.resign(Some(&node("absent").id)).await.unwrap(), Resigned::NoSuchMember);
        assert!(first.confirm().await.unwrap());
        assert_eq!(first.resign(Some(&n2.node().id)).await.unwrap(), Resigned::Done);
        assert_eq!(first.resign(None).await.unwrap(), Resigned::WasOver);
        for other in [&n1, &n3] {
            assert!(matches!(
                other.campaign(&db(), Reservation::Heed).await.unwrap(),
                Campaign::Reserved(node) if node == n2.node().id
            ));
        }
        let second = elected(&n2).await;
        assert!(second.epoch() > first.epoch());
        // The reservation is used up.
        assert_eq!(second.resign(None).await.unwrap(), Resigned::Done);
        let third = elected(&n3).await;
        // A successor that does not come is passed over by who is told so, and its lease's end ends
        // the reservation.
        assert_eq!(third.resign(Some(&n2.node().id)).await.unwrap(), Resigned::Done);
        let Campaign::Elected(fourth) = n1.campaign(&db(), Reservation::Ignore).await.unwrap() else { panic!() };
        assert_eq!(fourth.resign(Some(&n2.node().id)).await.unwrap(), Resigned::Done);
        n2.leave().await.unwrap();
        elected(&n3).await;
    });
}

/// Found by a seed: a resignation got no answer, the node campaigned and had its old epoch again,
/// and then the resignation arrived. Another node was elected while this one was certain of its
/// lease. Now the node resigns again before it campaigns.
pub(crate) fn a_leadership_that_is_being_resigned_is_not_taken_up_again(bed: &mut dyn Bed) {
    let n1 = join(bed, "n1");
    let (member, leadership) = run(bed, async move {
        let leadership = elected(&n1).await;
        assert!(!leadership.certain_for().is_zero());
        (n1, leadership)
    });
    bed.cut("n1");
    let resigning = leadership.clone();
    run(bed, async move { resigning.resign(None).await.unwrap_err() });
    bed.heal("n1");
    assert!(leadership.certain_for().is_zero(), "it may be over at any moment");
    run(bed, async move {
        let again = elected_in_time(&member).await;
        assert!(again.epoch() > leadership.epoch());
    });
}

pub(crate) fn a_lease_counts_from_the_sending_of_its_keepalive(bed: &mut dyn Bed) {
    let (kept, left_alone) = (join(bed, "kept"), join_only(bed, "alone"));
    bed.pass(TTL * 2);
    assert!(!kept.lease_left().is_zero() && kept.lease_left() < TTL, "{:?}", kept.lease_left());
    assert!(left_alone.lease_left().is_zero());
    bed.cut("kept");
    // It is over for the node before it is over for the service.
    bed.pass(TTL - TTL / 20);
    assert!(kept.lease_left().is_zero());
    bed.pass(TTL * 2);
    bed.heal("kept");
    bed.pass(TTL);
    assert!(kept.is_lost());
    // The name is free again.
    join(bed, "kept2");
    let members = run(bed, async move { kept.cluster().members().await.unwrap() });
    assert_eq!(members.iter().map(|member| member.node.id.as_str()).collect::<Vec<_>>(), ["kept2"]);
}

pub(crate) fn a_node_name_is_held_once(bed: &mut dyn Bed) {
    let first = join(bed, "n1");
    let again = cluster(bed, "again");
    run(bed, async move {
        let leadership = elected(&first).await;
        let options = JoinOptions { lease_ttl: TTL, ..JoinOptions::default() };
        match again.join(node("n1"), options).await {
            Err(JoinError::NameTaken { holder }) => assert_eq!(&holder, first.node()),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("two nodes of one name"),
        }
        // Nor by who has another directory, another address, or a copy of the directory.
        for (options, address) in [
            (JoinOptions { instance: Instance { dir: 1, start: 0 }, replace: Replace::EarlierStart, ..options }, None),
            (JoinOptions { replace: Replace::EarlierStart, ..options }, Some("elsewhere:5432")),
            (JoinOptions { instance: Instance { dir: 0, start: 1 }, replace: Replace::Itself, ..options }, None),
        ] {
            let mut other = node("n1");
            other.address = address.map_or(other.address, str::to_owned);
            assert!(matches!(again.join(other, options).await, Err(JoinError::NameTaken { .. })), "{options:?}");
        }
        assert!(leadership.confirm().await.unwrap(), "nothing has ended");
        let options =
            JoinOptions { instance: Instance { dir: 0, start: 1 }, replace: Replace::EarlierStart, ..options };
        let second = again.join(node("n1"), options).await.unwrap();
        // What the first one led ended with its lease.
        assert!(!leadership.confirm().await.unwrap());
        assert!(elected(&second).await.epoch() > leadership.epoch());
        assert_eq!(again.members().await.unwrap().len(), 1);
    });
}

pub(crate) fn leaders_and_members_are_observed_across_a_cut(bed: &mut dyn Bed) {
    let n1 = join(bed, "n1");
    let reader = cluster(bed, "reader");
    let watcher = reader.clone();
    let mut leaders = watcher.observe_leaders();
    let (leadership, mut leaders) = run(bed, async move {
        let leadership = elected(&n1).await;
        let Seen::Is((found, leader)) = leaders.next().await.unwrap() else { panic!() };
        assert_eq!((found, leader.epoch), (db(), leadership.epoch()));
        assert_eq!(reader.leaders().await.unwrap(), [(db(), leader)]);
        (leadership, leaders)
    });
    bed.cut("reader");
    run(bed, async move { leadership.resign(None).await.unwrap() });
    bed.pass(Duration::from_millis(300));
    bed.heal("reader");
    let n2 = join(bed, "n2");
    run(bed, async move {
        assert!(matches!(leaders.next().await.unwrap(), Seen::Was(_)));
        assert_eq!(leaders.known().count(), 0);
        let leadership = elected(&n2).await;
        let Seen::Is((_, leader)) = leaders.next().await.unwrap() else { panic!() };
        assert_eq!((leader.epoch, &leader.node), (leadership.epoch(), n2.node()));
        let mut members = watcher.observe_members();
        for _ in 0..2 {
            assert!(matches!(members.next().await.unwrap(), Seen::Is(_)));
        }
        n2.leave().await.unwrap();
        assert!(matches!(members.next().await.unwrap(), Seen::Was(member) if member.node.id == n2.node().id));
        assert!(matches!(leaders.next().await.unwrap(), Seen::Was(_)));
    });
}

pub(crate) fn one_node_of_a_cluster_compacts(bed: &mut dyn Bed) {
    let (n1, n2) = (join(bed, "n1"), join(bed, "n2"));
    run(bed, async move {
        let leadership = elected(&n1).await;
        let mut appender = leadership.appender().await.unwrap();
        let (mut one, mut other) = (Compactor::new(n1.cluster(), 400), Compactor::new(n2.cluster(), 400));
        assert_eq!(one.run().await.unwrap(), Compaction::Claimed);
        assert!(!one.note(Trimmed::Nothing));
        for _ in 0..10 {
            append(&mut appender, b"0123456789").await;
        }
        assert!(one.note(leadership.trim(&Held::elsewhere(appender.point())).await.unwrap()), "9 times 50 bytes");
        assert!(matches!(other.run().await.unwrap(), Compaction::Done(_)));
        // The other one was first.
        assert_eq!(one.run().await.unwrap(), Compaction::ByAnother);
        assert!(!one.note(Trimmed::Nothing));
        assert!(matches!(one.run().await.unwrap(), Compaction::Done(_)));
    });
}

pub(crate) fn names_of_any_kind_keep_their_databases_apart(bed: &mut dyn Bed) {
    let leader = join(bed, "n1");
    run(bed, async move {
        for name in ["a", "a/b", "ä ö", "a%2fb"] {
            let db = colibri_replica::Database(name.to_owned());
            let Campaign::Elected(leadership) = leader.campaign(&db, Reservation::Heed).await.unwrap() else {
                panic!()
            };
            let mut appender = leadership.appender().await.unwrap();
            assert_eq!(appender.point(), leader.cluster().start(&db));
            append(&mut appender, name.as_bytes()).await;
            let mut follower = leader.cluster().follow(&db, leader.cluster().start(&db));
            assert_eq!(texts(&take(&mut follower, 1).await), [name]);
        }
        assert_eq!(leader.cluster().leaders().await.unwrap().len(), 4);
    });
}
