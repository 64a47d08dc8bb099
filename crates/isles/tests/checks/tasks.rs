//! Tasks that wait for commits, with an executor of a few lines.
// A program of a user has threads of its own.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::common::{Directory, SCHEMES, person};
use isles::{BlockingJob, Scheme};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, which sleeps until the future is woken.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn tasks_wait_for_commits() {
    for scheme in SCHEMES {
        let directory = Directory::new(&format!("tasks-{scheme:?}"));
        let (database, people) = directory.open(scheme).expect("a database");
        let jobs = Arc::new(AtomicUsize::new(0));
        let (mut session, mut threads) = (database.session().expect("a session"), Vec::new());
        for id in 0..20 {
            let ((), ticket) =
                session.transaction_async(|t| t.insert(people, &person(id))).expect("committed");
            let jobs = Arc::clone(&jobs);
            threads.push(std::thread::spawn(move || {
                let block = move |job: BlockingJob| {
                    jobs.fetch_add(1, Ordering::SeqCst);
                    drop(std::thread::spawn(job));
                };
                block_on(ticket.clone().on_disk_by(block)).map(|()| ticket.is_on_disk())
            }));
        }
        for thread in threads {
            assert_eq!(thread.join().expect("no panic"), Ok(true));
        }
        assert!((1..=20).contains(&jobs.load(Ordering::SeqCst)));
        drop(session);
        assert_eq!(database.close(), Ok(()), "no job keeps it open");
    }
}

/// If a runtime drops a job, the waiting task is woken, and another job is requested.
#[test]
fn a_lost_job_is_requested_again() {
    let directory = Directory::new("tasks-lost");
    let (database, people) = directory.open(Scheme::Silo).expect("a database");
    let mut session = database.session().expect("a session");
    let ((), ticket) = session.transaction_async(|t| t.insert(people, &person(1))).expect("committed");
    let mut asked = 0;
    let waits = ticket.on_disk_by(|job| {
        asked += 1;
        if asked > 3 {
            drop(std::thread::spawn(job));
        }
    });
    assert_eq!(block_on(waits), Ok(()));
    assert_eq!(asked, 4);
}

#[test]
fn a_dropped_future_does_not_delay_other_tasks() {
    let directory = Directory::new("tasks-given-up");
    let (database, people) = directory.open(Scheme::Silo).expect("a database");
    let kept: Arc<Mutex<Vec<BlockingJob>>> = Arc::default();
    let mut session = database.session().expect("a session");
    let ((), ticket) = session.transaction_async(|t| t.insert(people, &person(1))).expect("committed");
    {
        let jobs = Arc::clone(&kept);
        let mut waits = pin!(ticket.clone().on_disk_by(move |job| jobs.lock().expect("no panic").push(job)));
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    // The job that was under way finds no waiting task, and the next task gets another job.
    kept.lock().expect("no panic").drain(..).for_each(|job| job());
    assert!(!ticket.is_on_disk(), "no session has waited");
    assert_eq!(block_on(ticket.on_disk_by(|job| drop(std::thread::spawn(job)))), Ok(()));
}
