//! Requests that are there as a whole when they are sent.
//!
//! tonic gives the body of any request as a stream whose end shows only when it is read again. So a
//! request with one message became three pieces: its header, its message, an empty piece that ends
//! it. Each was a call of the system here and a wake-up of etcd. Here the body is read to its end
//! before it is sent, so message and end are one piece.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use http_body::{Body as _, Frame};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{Bytes, Service};
use tonic::transport::Channel;

/// A connection for calls with one message.
#[derive(Clone)]
pub(super) struct Whole(pub(super) Channel);

impl Service<Request<Body>> for Whole {
    type Response = Response<Body>;
    type Error = tonic::transport::Error;
    type Future = <Channel as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::poll_ready(&mut self.0, context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (parts, body) = request.into_parts();
        self.0.call(Request::from_parts(parts, whole(body)))
    }
}

/// The same body as one piece. What it consists of is at hand, as it is a message that was given.
fn whole(mut body: Body) -> Body {
    let mut whole = Vec::new();
    let piece = loop {
        let next = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
        match next.map_ok(Frame::into_data) {
            Poll::Ready(Some(Ok(Ok(bytes)))) if whole.is_empty() && body.is_end_stream() => break Ok(bytes),
            Poll::Ready(Some(Ok(Ok(bytes)))) => whole.push(bytes),
            // What a client has to say is said in the header.
            Poll::Ready(Some(Ok(Err(_trailers)))) => {}
            Poll::Ready(Some(Err(status))) => break Err(status),
            Poll::Ready(None) => break Ok(joined(whole)),
            Poll::Pending => break Err(Status::internal("a request of one message is not at hand")),
        }
    };
    Body::new(Piece(Some(piece)))
}

fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.len() {
        0 | 1 => pieces.pop().unwrap_or_default(),
        _ => pieces.concat().into(),
    }
}

/// A body of one piece.
struct Piece(Option<Result<Bytes, Status>>);

impl http_body::Body for Piece {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.0.take().map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Pieces, and an end that does not show before it is asked for.
    struct Pieces(VecDeque<Bytes>);

    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
        }
    }

    #[test]
    fn all_pieces_become_one_with_which_the_body_ends() {
        for pieces in [&["ab"][..], &["a", "", "bc"], &[]] {
            let given = pieces.iter().map(|piece| Bytes::from_static(piece.as_bytes())).collect();
            let mut body = whole(Body::new(Pieces(given)));
            let first = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(Some(Ok(first))) = first else { panic!("{pieces:?}: no piece") };
            assert_eq!(first.into_data().unwrap(), pieces.concat());
            assert!(body.is_end_stream(), "{pieces:?}");
        }
    }
}
