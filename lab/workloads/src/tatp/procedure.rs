//! The seven transactions as one procedure.
//!
//! An action consists of the accesses of one statement to one table, so that it can run at the
//! owner of that table's rows; statements that do not wait for each other belong to one phase. A
//! transaction that does not find its row rolls back; the description counts it as failed, and
//! gives the frequency of these failures.
//!
//! Three transactions know only the subscriber's number. The part of the data follows from the
//! number, as the part of a telephone network does, and the subscriber is found in the index of
//! numbers. Over several instances the accesses that follow are part of the same action
//! ([`Tatp::divided`](super::Tatp)), because instances send each other whole branches.

use boundary::{LookAhead, Plan, Procedure, Verbs};
use schema::{ColumnSet, Routes, Text};
use terms::Abort;

use super::action::{Action, Output, Task};
use super::rows::{AccessData, AccessInfo, CallForwarding, Subscriber, Tables};
use super::spec::{DIGITS, SubscriberKey, number};

/// The input of a transaction besides the subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads the row of a subscriber.
    GetSubscriberData,
    /// Finds the number to which calls are forwarded.
    GetNewDestination {
        /// SF_TYPE.
        sf_type: u8,
        /// The hour at which calls are forwarded.
        start_time: u8,
        /// The hour after which forwarding ends.
        end_time: u8,
    },
    /// Reads the access information of a type.
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
    /// Changes the location of the subscriber with a number.
    UpdateLocation {
        /// VLR_LOCATION.
        vlr_location: u32,
    },
    /// Forwards the calls of the subscriber with a number.
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
    /// Stops forwarding the calls of the subscriber with a number.
    DeleteCallForwarding {
        /// SF_TYPE.
        sf_type: u8,
        /// START_TIME.
        start_time: u8,
    },
}

/// The answer to the client.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Answer {
    /// The change has been made.
    #[default]
    Done,
    /// GetSubscriberData.
    Subscriber(Subscriber),
    /// GetNewDestination.
    Destination(Text<DIGITS>),
    /// GetAccessData.
    Access(AccessData),
}

/// One transaction: its input, and after it has run the answer to the client.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    /// The subscriber. A transaction that knows only the number derives it from this field.
    pub place: SubscriberKey,
    /// The rest of the input.
    pub request: Request,
    /// The answer to the client if the transaction commits.
    pub answer: Answer,
    /// True if an action has returned [`Output::Missing`].
    missing: bool,
    /// The subscriber found by its number.
    located: u32,
    /// As [`Tatp::divided`](super::Tatp).
    divided: bool,
    /// Random numbers that were drawn for the transaction and not declared yet.
    draws: u8,
}

impl Transaction {
    pub(super) fn new(place: SubscriberKey, request: Request, divided: bool, draws: u8) -> Self {
        Transaction { place, request, answer: Answer::Done, missing: false, located: 0, divided, draws }
    }

    /// The tasks of the first phase.
    fn begin(&self, mut push: impl FnMut(Task)) {
        let SubscriberKey { part, s_id } = self.place;
        match self.request {
            Request::GetSubscriberData => push(Task::ReadSubscriber { s_id }),
            Request::GetNewDestination { sf_type, start_time, end_time } => {
                push(Task::CheckActive { s_id, sf_type });
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

    /// The task of a later phase, if there is one.
    fn next_task(&self, phase: usize) -> Option<Task> {
        let (part, s_id) = (self.place.part, self.located);
        match (self.request, phase) {
            _ if self.divided => None,
            (Request::InsertCallForwarding { sf_type, .. }, 1) => Some(Task::CheckFacility { s_id, sf_type }),
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
        match self.next_task(phase) {
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
        let SubscriberKey { part, s_id } = self.place;
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
            // The others find rows in trees, or by numbers.
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
