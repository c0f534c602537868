//! Standard input that can be left: asked to end, a read that waits for more ends as well.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// How often somebody looks whether the program was asked to end.
const GLANCE: Duration = Duration::from_millis(50);

/// Standard input, read by a thread of its own.
pub struct Pipe {
    blocks: Receiver<io::Result<Vec<u8>>>,
    block: Vec<u8>,
    at: usize,
    stop: Arc<AtomicBool>,
}

impl Pipe {
    pub fn open(stop: Arc<AtomicBool>) -> Self {
        let (to, blocks) = sync_channel(4);
        std::thread::spawn(move || {
            loop {
                let mut block = vec![0; 1 << 16];
                match io::stdin().lock().read(&mut block) {
                    Ok(0) => break,
                    Ok(n) => {
                        block.truncate(n);
                        if to.send(Ok(block)).is_err() {
                            break;
                        }
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => {
                        let _ = to.send(Err(e));
                        break;
                    }
                }
            }
        });
        Self { blocks, block: Vec::new(), at: 0, stop }
    }
}

impl Read for Pipe {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at >= self.block.len() {
            // An error and not an end: a line that is torn is no row.
            if self.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("asked to end"));
            }
            match self.blocks.recv_timeout(GLANCE) {
                Ok(block) => (self.block, self.at) = (block?, 0),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
        let n = self.block.get(self.at..).unwrap_or_default().read(out)?;
        self.at += n;
        Ok(n)
    }
}
