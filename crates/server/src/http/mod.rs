//! stub
use std::sync::Arc;
use crate::link::Socket;
use crate::shared::Shared;
pub(crate) async fn serve(_shared: Arc<Shared>, _socket: Socket) {}
