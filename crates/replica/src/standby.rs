//! A standby: it applies the log as it comes, and reads go on meanwhile.

use crate::driver::{Driver, Stopped};
use crate::membership::Membership;
use crate::upkeep::{beside, keep_up};

impl Driver {
    /// Follows the log until it cannot, and publishes the node's bases. Gives up at first what a
    /// term has left that ended in another way than by its own call.
    ///
    /// The future may be dropped at any time, for example when it is time to campaign. A call goes
    /// on where the last one ended.
    pub async fn follow(&mut self, membership: &Membership) -> Stopped {
        let replica = self.replica.clone();
        beside(self.follow_alone(), keep_up(&replica, membership, None)).await
    }

    async fn follow_alone(&mut self) -> Stopped {
        loop {
            if let Err(stopped) = self.follow_once().await {
                return stopped;
            }
        }
    }

    async fn follow_once(&mut self) -> Result<(), Stopped> {
        self.begin().await?;
        self.apply_next(false).await.map(|_| ())
    }
}
