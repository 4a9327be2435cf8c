//! The calls, between the seam's types and etcd's messages.

use std::time::Duration;

use tonic::Code;

use super::link::{CallError, Link};
use super::messages as pb;
use crate::coordinator::{
    Compare, Done, Failure, Found, Get, Health, KeyValue, LeaseId, Operation, Refusal, Revision, Txn,
};

pub(super) async fn transact(link: &Link, txn: Txn) -> Result<Done, Failure> {
    let gets_then = gets_of(&txn.then);
    let gets_otherwise = gets_of(&txn.otherwise);
    let request = pb::TxnRequest {
        compare: txn.compares.into_iter().map(compare).collect(),
        success: txn.then.into_iter().map(operation).collect(),
        failure: txn.otherwise.into_iter().map(operation).collect(),
    };
    let answer: pb::TxnResponse = link.unary("/etcdserverpb.KV/Txn", request).await?;
    // Answers stand in the order of the operations; those of puts and deletes are passed over.
    let gets = if answer.succeeded { gets_then } else { gets_otherwise };
    let read: Vec<Vec<KeyValue>> = answer
        .responses
        .into_iter()
        .filter_map(|response| match response.response {
            Some(pb::Response::Range(range)) => Some(range.kvs.into_iter().map(key_value).collect()),
            None => None,
        })
        .collect();
    if read.len() != gets {
        return Err(Failure::Unknown("etcd has left out an answer of a transaction".to_owned()));
    }
    Ok(Done { held: answer.succeeded, revision: revision(answer.header.as_ref()), read })
}

fn gets_of(operations: &[Operation]) -> usize {
    operations.iter().filter(|operation| matches!(operation, Operation::Get(_))).count()
}

pub(super) async fn get(link: &Link, get: Get) -> Result<Found, Failure> {
    let answer: pb::RangeResponse = link.unary("/etcdserverpb.KV/Range", range(get)).await?;
    Ok(Found {
        revision: revision(answer.header.as_ref()),
        keys: answer.kvs.into_iter().map(key_value).collect(),
        more: answer.more,
    })
}

pub(super) async fn grant(link: &Link, ttl: Duration) -> Result<(LeaseId, Duration), Failure> {
    // etcd counts seconds. A shorter lease than was asked for would be a surprise, so it is rounded
    // up.
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    let request = pb::LeaseGrantRequest { ttl: number(seconds.max(1)) };
    let answer: pb::LeaseResponse = link.unary("/etcdserverpb.Lease/LeaseGrant", request).await?;
    Ok((LeaseId(answer.id), Duration::from_secs(unsigned(answer.ttl))))
}

pub(super) async fn keep_alive(link: &Link, lease: LeaseId) -> Result<Option<Duration>, Failure> {
    let request = pb::LeaseRequest { id: lease.0 };
    let answer: pb::LeaseResponse = link.first_of_stream("/etcdserverpb.Lease/LeaseKeepAlive", request).await?;
    // etcd answers zero seconds for a lease that does not exist.
    Ok((answer.ttl > 0).then(|| Duration::from_secs(unsigned(answer.ttl))))
}

pub(super) async fn revoke(link: &Link, lease: LeaseId) -> Result<(), Failure> {
    let request = pb::LeaseRequest { id: lease.0 };
    match link.unary::<_, pb::Nothing>("/etcdserverpb.Lease/LeaseRevoke", request).await.map_err(Failure::from) {
        Ok(_) | Err(Failure::Refused(Refusal::NoLease)) => Ok(()),
        Err(failure) => Err(failure),
    }
}

pub(super) async fn compact(link: &Link, revision: Revision) -> Result<(), Failure> {
    let request = pb::CompactionRequest { revision: number(revision.0) };
    match link.unary::<_, pb::Nothing>("/etcdserverpb.KV/Compact", request).await {
        Ok(_) => Ok(()),
        Err(CallError::Status(status)) if status.code() == Code::OutOfRange && is_compacted(status.message()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn is_compacted(text: &str) -> bool {
    text.contains("has been compacted")
}

pub(super) async fn health(link: &Link) -> Result<Health, Failure> {
    let answers: Vec<Option<pb::StatusResponse>> =
        link.each_member("/etcdserverpb.Maintenance/Status", pb::StatusRequest {}).await;
    let members = answers.len();
    let up: Vec<pb::StatusResponse> = answers.into_iter().flatten().collect();
    let Some(first) = up.first() else {
        return Err(Failure::NotSent("no member of etcd answers".to_owned()));
    };
    let largest = |size: fn(&pb::StatusResponse) -> i64| up.iter().map(size).max().map_or(0, unsigned);
    // Members may have different quotas: the smallest one stops the writes.
    let quotas = up.iter().map(|status| status.db_size_quota).filter(|&quota| quota > 0);
    Ok(Health {
        bytes: largest(|status| status.db_size),
        bytes_in_use: largest(|status| status.db_size_in_use),
        quota_bytes: quotas.min().map(unsigned),
        no_space: up.iter().any(|status| status.errors.iter().any(|error| error.contains("NOSPACE"))),
        members_up: (up.len(), members),
        version: first.version.clone(),
    })
}

fn compare(compare: Compare) -> pb::Compare {
    let (key, target, result, with) = match compare {
        Compare::Created(key, revision) => {
            (key, pb::CREATE, pb::EQUAL, pb::CompareWith::CreateRevision(number(revision.0)))
        }
        Compare::Modified(key, revision) => (key, pb::MOD, pb::EQUAL, pb::CompareWith::ModRevision(number(revision.0))),
        Compare::Exists(key) => (key, pb::CREATE, pb::GREATER, pb::CompareWith::CreateRevision(0)),
    };
    pb::Compare { result, target, key, with: Some(with) }
}

fn operation(operation: Operation) -> pb::RequestOp {
    let request = match operation {
        Operation::Put { key, value, lease } => {
            pb::Request::Put(pb::PutRequest { key, value: value.into(), lease: lease.map_or(0, |lease| lease.0) })
        }
        Operation::Delete(keys) => {
            pb::Request::DeleteRange(pb::DeleteRangeRequest { key: keys.start, range_end: keys.end })
        }
        Operation::Get(get) => pb::Request::Range(range(get)),
    };
    pb::RequestOp { request: Some(request) }
}

fn range(get: Get) -> pb::RangeRequest {
    pb::RangeRequest {
        key: get.keys.start,
        range_end: get.keys.end,
        limit: number(get.keys_max as u64),
        sort_order: if get.last_first { pb::DESCENDING } else { 0 },
        keys_only: get.keys_only,
    }
}

pub(super) fn key_value(key: pb::KeyValue) -> KeyValue {
    KeyValue {
        key: key.key,
        value: key.value,
        created: Revision(unsigned(key.create_revision)),
        modified: Revision(unsigned(key.mod_revision)),
        lease: (key.lease != 0).then_some(LeaseId(key.lease)),
    }
}

fn revision(header: Option<&pb::ResponseHeader>) -> Revision {
    Revision(header.map_or(0, |header| unsigned(header.revision)))
}

/// etcd's numbers are signed, and those used here are never negative.
fn unsigned(number: i64) -> u64 {
    number.try_into().unwrap_or(0)
}

pub(super) fn number(unsigned: u64) -> i64 {
    unsigned.try_into().unwrap_or(i64::MAX)
}
