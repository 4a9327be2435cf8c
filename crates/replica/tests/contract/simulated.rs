//! The contract on the simulation, in virtual time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use colibri_replica::coordinator::Coordinator;
use colibri_replica::simulation::{Faults, Simulation};

use crate::support::{Bed, Boxed};

const ENTRY_BYTES_MAX: usize = 1000;

struct Simulated(Simulation);

impl Bed for Simulated {
    fn connect(&mut self, node: &str) -> Arc<dyn Coordinator> {
        self.0.connect(node)
    }

    fn block_on(&mut self, future: Boxed<()>) {
        self.0.block_on(future);
    }

    fn spawn(&mut self, node: &str, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.spawn(node, future);
    }

    fn pass(&mut self, duration: Duration) {
        self.0.run_for(duration);
    }

    fn cut(&mut self, node: &str) {
        self.0.cut(node);
    }

    fn lose_answers(&mut self, _: &str) {
        self.0.set_faults(Faults { answers_lost_permille: 1000, ..Faults::default() });
    }

    fn heal(&mut self, node: &str) {
        self.0.heal(node);
        self.0.set_faults(Faults::default());
    }

    fn compact(&mut self) {
        self.0.compact();
    }

    fn entry_bytes_max(&self) -> usize {
        ENTRY_BYTES_MAX
    }

    fn cluster_name(&self) -> String {
        "test".to_owned()
    }
}

/// One test for each function of the suite.
macro_rules! on_the_simulation {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            let simulation = Simulation::new(7);
            simulation.set_value_bytes_max(ENTRY_BYTES_MAX);
            crate::suite::$name(&mut Simulated(simulation));
        }
    )*};
}

crate::suite::for_each_test!(on_the_simulation);
