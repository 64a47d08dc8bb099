//! The actions of the transactions: the accesses to one table each, or, over several instances, all
//! accesses for one phone number.

use std::ops::ControlFlow;

use boundary::{Direction, Verbs};
use platform::{Intent, Work};
use schema::{Handle, Routes, Text};
use serde::{Deserialize, Serialize};
use terms::Abort;

use super::rows::{AccessData, AccessInfo, CallForwarding, SpecialFacility, Subscriber, Tables};
use super::spec::DIGITS;
use crate::workload::row_missing;

/// One action, on one part of the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// The part.
    pub(super) part: u16,
    /// Random numbers that were drawn for the transaction and not declared yet.
    pub(super) draws: u8,
    /// The accesses.
    pub(super) task: Task,
}

/// The accesses of an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Task {
    /// SUBSCRIBER: reads a row.
    ReadSubscriber {
        /// S_ID.
        s_id: u32,
    },
    /// SUBSCRIBER: changes BIT_1.
    SetBit {
        /// S_ID.
        s_id: u32,
        /// BIT_1.
        bit_1: u8,
    },
    /// SUBSCRIBER: finds the subscriber with a number.
    Locate {
        /// SUB_NBR.
        sub_nbr: Text<DIGITS>,
    },
    /// SUBSCRIBER: changes the location of a number.
    Move {
        /// SUB_NBR.
        sub_nbr: Text<DIGITS>,
        /// VLR_LOCATION.
        vlr_location: u32,
    },
    /// ACCESS_INFO: reads a row.
    ReadAccess {
        /// S_ID.
        s_id: u32,
        /// AI_TYPE.
        ai_type: u8,
    },
    /// SPECIAL_FACILITY: checks that there is an active row of the type.
    CheckActive {
        /// S_ID.
        s_id: u32,
        /// SF_TYPE.
        sf_type: u8,
    },
    /// SPECIAL_FACILITY: reads the rows of a subscriber, and checks that one of them is of the
    /// type.
    CheckFacility {
        /// S_ID.
        s_id: u32,
        /// SF_TYPE.
        sf_type: u8,
    },
    /// SPECIAL_FACILITY: changes DATA_A.
    SetData {
        /// S_ID.
        s_id: u32,
        /// SF_TYPE.
        sf_type: u8,
        /// DATA_A.
        data_a: u8,
    },
    /// CALL_FORWARDING: finds the first number to which calls are forwarded at one hour and until
    /// after another.
    FindDestination {
        /// S_ID.
        s_id: u32,
        /// SF_TYPE.
        sf_type: u8,
        /// The hour at which calls are forwarded.
        start_time: u8,
        /// The hour after which forwarding ends.
        end_time: u8,
    },
    /// CALL_FORWARDING: inserts a row unless its key exists.
    Forward(CallForwarding),
    /// CALL_FORWARDING: deletes a row.
    Stop {
        /// S_ID.
        s_id: u32,
        /// SF_TYPE.
        sf_type: u8,
        /// START_TIME.
        start_time: u8,
    },
    /// [`Task::Locate`], [`Task::CheckFacility`] and [`Task::Forward`] in one action.
    ForwardNumber {
        /// SUB_NBR.
        sub_nbr: Text<DIGITS>,
        /// The row, without the subscriber.
        row: CallForwarding,
    },
    /// [`Task::Locate`] and [`Task::Stop`] in one action.
    StopNumber {
        /// SUB_NBR.
        sub_nbr: Text<DIGITS>,
        /// SF_TYPE.
        sf_type: u8,
        /// START_TIME.
        start_time: u8,
    },
}

/// Result of an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Output {
    /// The row does not exist, or exists already for an insertion.
    Missing,
    /// The action has succeeded.
    Done,
    /// S_ID.
    Located(u32),
    /// A subscriber.
    Subscriber(Subscriber),
    /// NUMBERX.
    Destination(Text<DIGITS>),
    /// DATA1 to DATA4.
    Access(AccessData),
}

/// Words of a copied row of this many bytes.
fn words(bytes: usize) -> u32 {
    bytes.div_ceil(8) as u32
}

impl Action {
    pub(super) fn route(&self, tables: &Tables, route: &mut Routes) {
        let part = self.part;
        match &self.task {
            Task::ReadSubscriber { s_id } => route.read(tables.subscriber, &(part, *s_id)),
            Task::SetBit { s_id, .. } => route.write(tables.subscriber, &(part, *s_id)),
            // The keys of both indexes of the table begin with the part.
            Task::Locate { .. } => route.read(tables.subscriber, &part),
            Task::Move { .. } => route.write(tables.subscriber, &part),
            Task::ReadAccess { s_id, ai_type } => route.read(tables.access_info, &(part, *s_id, *ai_type)),
            Task::CheckActive { s_id, sf_type } => {
                route.read(tables.special_facility, &(part, *s_id, *sf_type))
            }
            Task::CheckFacility { s_id, .. } => route.read(tables.special_facility, &(part, *s_id)),
            Task::SetData { s_id, sf_type, .. } => {
                route.write(tables.special_facility, &(part, *s_id, *sf_type));
            }
            Task::FindDestination { s_id, sf_type, .. } => {
                route.read(tables.call_forwarding, &(part, *s_id, *sf_type));
            }
            Task::Forward(CallForwarding { s_id, sf_type, start_time, .. })
            | Task::Stop { s_id, sf_type, start_time } => {
                route.write(tables.call_forwarding, &(part, *s_id, *sf_type, *start_time));
            }
            // The subscriber with the number is not known.
            Task::ForwardNumber { .. } => {
                route.write(tables.call_forwarding, &part);
                route.read(tables.subscriber, &part);
                route.read(tables.special_facility, &part);
            }
            Task::StopNumber { .. } => {
                route.write(tables.call_forwarding, &part);
                route.read(tables.subscriber, &part);
            }
        }
    }

    #[inline]
    pub(super) fn execute<T: Verbs>(&self, tables: &Tables, transaction: &mut T) -> Result<Output, Abort> {
        transaction.work(Work::Random, u32::from(self.draws));
        let at = PartTables { tables, part: self.part };
        transaction.work(Work::Step, 1);
        match &self.task {
            Task::ReadSubscriber { s_id } => at.read_subscriber(*s_id, transaction),
            Task::SetBit { s_id, bit_1 } => at.set_bit(*s_id, *bit_1, transaction),
            Task::Locate { sub_nbr } => at.locate(sub_nbr, transaction).map(Output::Located),
            Task::Move { sub_nbr, vlr_location } => at.change_location(sub_nbr, *vlr_location, transaction),
            Task::ReadAccess { s_id, ai_type } => at.read_access(*s_id, *ai_type, transaction),
            Task::CheckActive { s_id, sf_type } => at.check_active(*s_id, *sf_type, transaction),
            Task::CheckFacility { s_id, sf_type } => at.check_facility(*s_id, *sf_type, transaction),
            Task::SetData { s_id, sf_type, data_a } => at.set_data(*s_id, *sf_type, *data_a, transaction),
            Task::FindDestination { s_id, sf_type, start_time, end_time } => {
                at.find_destination(*s_id, *sf_type, *start_time, *end_time, transaction)
            }
            Task::Forward(row) => at.forward(row, transaction),
            Task::Stop { s_id, sf_type, start_time } => at.stop(*s_id, *sf_type, *start_time, transaction),
            Task::ForwardNumber { sub_nbr, row } => {
                let s_id = at.locate(sub_nbr, transaction)?;
                match at.check_facility(s_id, row.sf_type, transaction)? {
                    Output::Missing => Ok(Output::Missing),
                    _ => at.forward(&CallForwarding { s_id, ..row.clone() }, transaction),
                }
            }
            Task::StopNumber { sub_nbr, sf_type, start_time } => {
                let s_id = at.locate(sub_nbr, transaction)?;
                at.stop(s_id, *sf_type, *start_time, transaction)
            }
        }
    }
}

/// The tables, and a part of the data.
#[derive(Clone, Copy)]
struct PartTables<'t> {
    tables: &'t Tables,
    part: u16,
}

impl PartTables<'_> {
    #[inline]
    fn read_subscriber<T: Verbs>(self, s_id: u32, transaction: &mut T) -> Result<Output, Abort> {
        let index = self.tables.subscriber.primary();
        let row = transaction.find(index, &(self.part, s_id), Intent::Read)?.ok_or_else(row_missing)?;
        transaction.work(Work::CopyWord, words(<Subscriber as schema::Row>::BYTES));
        transaction.row(row).map(Output::Subscriber)
    }

    #[inline]
    fn set_bit<T: Verbs>(self, s_id: u32, bit_1: u8, transaction: &mut T) -> Result<Output, Abort> {
        let index = self.tables.subscriber.primary();
        let row = transaction.find(index, &(self.part, s_id), Intent::Write)?.ok_or_else(row_missing)?;
        transaction.put(row, Subscriber::BIT_1, &bit_1)?;
        Ok(Output::Done)
    }

    #[inline]
    fn by_number<T: Verbs>(
        self,
        sub_nbr: &Text<DIGITS>,
        intent: Intent,
        transaction: &mut T,
    ) -> Result<Handle<Subscriber>, Abort> {
        let index = self.tables.subscriber.index(Subscriber::BY_NUMBER);
        transaction.find(index, &(self.part, *sub_nbr), intent)?.ok_or_else(row_missing)
    }

    #[inline]
    fn locate<T: Verbs>(self, sub_nbr: &Text<DIGITS>, transaction: &mut T) -> Result<u32, Abort> {
        let row = self.by_number(sub_nbr, Intent::Read, transaction)?;
        transaction.get(row, Subscriber::S_ID)
    }

    #[inline]
    fn change_location<T: Verbs>(
        self,
        sub_nbr: &Text<DIGITS>,
        vlr_location: u32,
        transaction: &mut T,
    ) -> Result<Output, Abort> {
        let row = self.by_number(sub_nbr, Intent::Write, transaction)?;
        transaction.put(row, Subscriber::VLR_LOCATION, &vlr_location)?;
        Ok(Output::Done)
    }

    #[inline]
    fn read_access<T: Verbs>(self, s_id: u32, ai_type: u8, transaction: &mut T) -> Result<Output, Abort> {
        let index = self.tables.access_info.primary();
        match transaction.find(index, &(self.part, s_id, ai_type), Intent::Read)? {
            Some(row) => transaction.get(row, AccessInfo::DATA).map(Output::Access),
            None => Ok(Output::Missing),
        }
    }

    #[inline]
    fn check_active<T: Verbs>(self, s_id: u32, sf_type: u8, transaction: &mut T) -> Result<Output, Abort> {
        let index = self.tables.special_facility.primary();
        let found = transaction.find(index, &(self.part, s_id, sf_type), Intent::Read)?;
        let Some(row) = found else { return Ok(Output::Missing) };
        match transaction.get(row, SpecialFacility::IS_ACTIVE)? {
            true => Ok(Output::Done),
            false => Ok(Output::Missing),
        }
    }

    #[inline]
    fn check_facility<T: Verbs>(self, s_id: u32, sf_type: u8, transaction: &mut T) -> Result<Output, Abort> {
        let index = self.tables.special_facility.primary();
        let (low, high) = ((self.part, s_id, 0), (self.part, s_id, u8::MAX));
        let mut is_there = false;
        transaction.scan(index, &low, &high, Direction::Forward, Intent::Read, &mut |transaction, row| {
            is_there |= transaction.get(row, SpecialFacility::SF_TYPE)? == sf_type;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(if is_there { Output::Done } else { Output::Missing })
    }

    #[inline]
    fn set_data<T: Verbs>(
        self,
        s_id: u32,
        sf_type: u8,
        data_a: u8,
        transaction: &mut T,
    ) -> Result<Output, Abort> {
        let index = self.tables.special_facility.primary();
        let found = transaction.find(index, &(self.part, s_id, sf_type), Intent::Write)?;
        let Some(row) = found else { return Ok(Output::Missing) };
        transaction.put(row, SpecialFacility::DATA_A, &data_a)?;
        Ok(Output::Done)
    }

    #[inline]
    fn find_destination<T: Verbs>(
        self,
        s_id: u32,
        sf_type: u8,
        start_time: u8,
        end_time: u8,
        transaction: &mut T,
    ) -> Result<Output, Abort> {
        let index = self.tables.call_forwarding.primary();
        let (low, high) = ((self.part, s_id, sf_type, 0), (self.part, s_id, sf_type, start_time));
        let mut destination = Output::Missing;
        transaction.scan(index, &low, &high, Direction::Forward, Intent::Read, &mut |transaction, row| {
            if transaction.get(row, CallForwarding::END_TIME)? <= end_time {
                return Ok(ControlFlow::Continue(()));
            }
            destination = Output::Destination(transaction.get(row, CallForwarding::NUMBERX)?);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(destination)
    }

    #[inline]
    fn forward<T: Verbs>(self, row: &CallForwarding, transaction: &mut T) -> Result<Output, Abort> {
        let key = (self.part, row.s_id, row.sf_type, row.start_time);
        let index = self.tables.call_forwarding.primary();
        // Inserting an existing key would abort the transaction, which has to roll back instead.
        if transaction.find(index, &key, Intent::Write)?.is_some() {
            return Ok(Output::Missing);
        }
        transaction.insert(self.tables.call_forwarding, row)?;
        Ok(Output::Done)
    }

    #[inline]
    fn stop<T: Verbs>(
        self,
        s_id: u32,
        sf_type: u8,
        start_time: u8,
        transaction: &mut T,
    ) -> Result<Output, Abort> {
        let index = self.tables.call_forwarding.primary();
        match transaction.find(index, &(self.part, s_id, sf_type, start_time), Intent::Write)? {
            Some(row) => transaction.delete(row).map(|()| Output::Done),
            None => Ok(Output::Missing),
        }
    }
}
