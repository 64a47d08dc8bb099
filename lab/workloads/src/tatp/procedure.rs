//! The seven transactions as one procedure.
//!
//! An action is what one statement does in one table, so that it can run where that table's rows
//! belong; statements that do not wait for each other are of one phase. A transaction that does not
//! find what it is about rolls back: the description counts it as failed, and says how often that
//! is.
//!
//! Three transactions know the subscriber's number only. The part of the data follows from it, as
//! the part of a telephone network does, and the subscriber is found in the index of numbers. Over
//! several instances all that follows is the same action ([`Tatp::divided`](super::Tatp)), because
//! instances send each other whole parts of transactions.

use boundary::{LookAhead, Plan, Procedure, Verbs};
use schema::{ColumnSet, Routes, Text};
use terms::Abort;

use super::action::{Action, Output, Task};
use super::rows::{AccessData, AccessInfo, CallForwarding, Subscriber, Tables};
use super::spec::{DIGITS, Place, number};

/// What a transaction asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// All of a subscriber.
    GetSubscriberData,
    /// Where calls are forwarded to.
    GetNewDestination {
        /// SF_TYPE.
        sf_type: u8,
        /// At this hour.
        start_time: u8,
        /// And longer than until this one.
        end_time: u8,
    },
    /// How data are accessed.
    GetAccessData {
        /// AI_TYPE.
        ai_type: u8,
    },
    /// Changes a bit of the subscriber and a byte of a special facility.
    UpdateSubscriberData {
        /// BIT_1.
        bit_1: u8,
        /// SF_TYPE.
        sf_type: u8,
        /// DATA_A.
        data_a: u8,
    },
    /// The subscriber with this number has moved.
    UpdateLocation {
        /// VLR_LOCATION.
        vlr_location: u32,
    },
    /// Calls of the subscriber with this number are to be forwarded.
    InsertCallForwarding {
        /// SF_TYPE.
        sf_type: u8,
        /// START_TIME.
        start_time: u8,
        /// END_TIME.
        end_time: u8,
        /// NUMBERX.
        numberx: Text<DIGITS>,
    },
    /// They are not to be forwarded any more.
    DeleteCallForwarding {
        /// SF_TYPE.
        sf_type: u8,
        /// START_TIME.
        start_time: u8,
    },
}

/// What the client is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Answer {
    /// That it is done.
    #[default]
    Done,
    /// GetSubscriberData.
    Subscriber(Subscriber),
    /// GetNewDestination.
    Destination(Text<DIGITS>),
    /// GetAccessData.
    Access(AccessData),
}

/// One transaction: its input, and after it ran what the client is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    /// Whom it is about: of transactions that know the number only, this is the subscriber with the
    /// number.
    pub place: Place,
    /// What it asks for.
    pub request: Request,
    /// What the client is told if it commits.
    pub answer: Answer,
    /// True if an action has not found what it looked for.
    missing: bool,
    /// Whom the number belongs to.
    located: u32,
    /// [`Tatp::divided`](super::Tatp).
    divided: bool,
    /// Random numbers that were drawn for the transaction and not declared yet.
    draws: u8,
}

impl Transaction {
    pub(super) fn new(place: Place, request: Request, divided: bool, draws: u8) -> Self {
        Transaction { place, request, answer: Answer::Done, missing: false, located: 0, divided, draws }
    }

    /// The tasks of the first phase.
    fn begin(&self, mut push: impl FnMut(Task)) {
        let Place { part, s_id } = self.place;
        match self.request {
            Request::GetSubscriberData => push(Task::ReadSubscriber { s_id }),
            Request::GetNewDestination { sf_type, start_time, end_time } => {
                push(Task::AskActive { s_id, sf_type });
                push(Task::FindDestination { s_id, sf_type, start_time, end_time });
            }
            Request::GetAccessData { ai_type } => push(Task::ReadAccess { s_id, ai_type }),
            Request::UpdateSubscriberData { bit_1, sf_type, data_a } => {
                push(Task::SetData { s_id, sf_type, data_a });
                push(Task::SetBit { s_id, bit_1 });
            }
            Request::UpdateLocation { vlr_location } => {
                push(Task::Move { sub_nbr: number(s_id), vlr_location });
            }
            Request::InsertCallForwarding { sf_type, start_time, end_time, numberx } if self.divided => {
                let row = CallForwarding { part, sf_type, start_time, s_id: 0, end_time, numberx };
                push(Task::ForwardNumber { sub_nbr: number(s_id), row });
            }
            Request::DeleteCallForwarding { sf_type, start_time } if self.divided => {
                push(Task::StopNumber { sub_nbr: number(s_id), sf_type, start_time });
            }
            Request::InsertCallForwarding { .. } | Request::DeleteCallForwarding { .. } => {
                push(Task::Locate { sub_nbr: number(s_id) });
            }
        }
    }

    /// What follows in a later phase, if anything.
    fn go_on(&self, phase: usize) -> Option<Task> {
        let (part, s_id) = (self.place.part, self.located);
        match (self.request, phase) {
            _ if self.divided => None,
            (Request::InsertCallForwarding { sf_type, .. }, 1) => Some(Task::AskFacility { s_id, sf_type }),
            (Request::InsertCallForwarding { sf_type, start_time, end_time, numberx }, 2) => {
                Some(Task::Forward(CallForwarding { part, sf_type, start_time, s_id, end_time, numberx }))
            }
            (Request::DeleteCallForwarding { sf_type, start_time }, 1) => {
                Some(Task::Stop { s_id, sf_type, start_time })
            }
            _ => None,
        }
    }
}

impl Procedure for Transaction {
    type Tables = Tables;
    type Action = Action;
    type Output = Output;

    #[inline]
    fn plan(&mut self, phase: usize, actions: &mut Vec<Action>) -> Plan {
        let part = self.place.part;
        if phase == 0 {
            (self.missing, self.located, self.answer) = (false, 0, Answer::Done);
            let mut draws = std::mem::take(&mut self.draws);
            self.begin(|task| actions.push(Action { part, draws: std::mem::take(&mut draws), task }));
            return Plan::Run;
        }
        if self.missing {
            return Plan::RollBack;
        }
        match self.go_on(phase) {
            Some(task) => {
                actions.push(Action { part, draws: 0, task });
                Plan::Run
            }
            None => Plan::Commit,
        }
    }

    fn route(tables: &Tables, action: &Action, route: &mut Routes) {
        action.route(tables, route);
    }

    #[inline]
    fn execute<T: Verbs>(tables: &Tables, action: &Action, transaction: &mut T) -> Result<Output, Abort> {
        action.execute(tables, transaction)
    }

    #[inline]
    fn absorb(&mut self, _: usize, _: usize, output: Output) {
        match output {
            Output::Missing => self.missing = true,
            Output::Done => {}
            Output::Located(s_id) => self.located = s_id,
            Output::Subscriber(row) => self.answer = Answer::Subscriber(row),
            Output::Destination(numberx) => self.answer = Answer::Destination(numberx),
            Output::Access(data) => self.answer = Answer::Access(data),
        }
    }

    #[inline]
    fn homes(&self, home: &mut dyn FnMut(u16)) -> bool {
        home(self.place.part);
        true
    }

    #[inline]
    fn look_ahead<L: LookAhead>(&self, tables: &Tables, ahead: &mut L) {
        let Place { part, s_id } = self.place;
        let subscriber = tables.subscriber.primary();
        match self.request {
            Request::GetSubscriberData => {
                ahead.row(
                    subscriber,
                    &(part, s_id),
                    ColumnSet::of(Subscriber::BIT_1).with(Subscriber::SUB_NBR),
                );
            }
            Request::UpdateSubscriberData { .. } => {
                ahead.row(subscriber, &(part, s_id), ColumnSet::of(Subscriber::BIT_1));
            }
            Request::GetAccessData { ai_type } => {
                let columns = ColumnSet::of(AccessInfo::DATA);
                ahead.row(tables.access_info.primary(), &(part, s_id, ai_type), columns);
            }
            // What is found in trees, and behind numbers.
            _ => {}
        }
    }

    #[inline]
    fn read_only(&self) -> bool {
        matches!(
            self.request,
            Request::GetSubscriberData | Request::GetNewDestination { .. } | Request::GetAccessData { .. }
        )
    }
}
