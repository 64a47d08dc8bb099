//! A member's parts of other members' transactions.

use boundary::{AnyPrepared, AnySession, AnyVerbs, Bounds, PartOf, Procedure, Transaction};
use platform::link::Links;
use terms::{Abort, Epoch, Fault};

use crate::flight::{PreparedPart, WaitingRequest, enlist, execute};
use crate::member::{DurabilityWaiter, Member, ProcedureMessage};
use crate::messages::{GlobalId, Message, Refusal, Unsendable, encode};
use crate::protocol::{Participant, ParticipantAction, ParticipantEvent};
use crate::rejoining::home;
use crate::setting::{MemberError, Setting};

/// A vote for a part that gives back these outputs, as it travels.
fn yes<Q: Procedure>(id: GlobalId, outputs: Vec<Q::Output>) -> Result<Vec<u8>, Unsendable> {
    let mut frame = Vec::new();
    encode(&ProcedureMessage::<Q>::Vote { id, result: Ok(outputs) }, &mut frame)?;
    Ok(frame)
}

impl<'d, P: Links, Q: Procedure, T> Member<'d, P, Q, T> {
    /// Prepares a part for another worker, and votes.
    pub(crate) fn serve(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        request: WaitingRequest<Q::Action>,
    ) -> Result<(), MemberError> {
        let WaitingRequest { peer, id, is_last, only_reads, actions, .. } = request;
        let from = self.peers[peer].name;
        if id.coordinator != from {
            return Err(MemberError::Stranger { from, coordinator: id.coordinator });
        }
        let illegal = |error| MemberError::Illegal { from, error };
        let faults = self.setting.faults;
        if !self.is_open() {
            return self.send(c, peer, &Message::Vote { id, result: Err(Refusal::Conflict) });
        }
        let mut act = std::mem::take(&mut self.answers);
        act.clear();
        if let Some(held) = self.held.iter_mut().find(|held| held.id == id) {
            return held.participant.step(ParticipantEvent::Requested, &mut act).map_err(illegal);
        }
        let mut participant = Participant::new(is_last, only_reads, faults);
        participant.step(ParticipantEvent::Requested, &mut act).map_err(illegal)?;
        act.clear();
        let (prepared, vote, epoch) = match self.run(session, id, &actions) {
            Ok((outputs, prepared, epoch)) => match yes::<Q>(id, outputs) {
                Ok(frame) => {
                    self.counts.served += 1;
                    (Some(prepared), Ok(frame), epoch)
                }
                Err(why) => {
                    session.finish(prepared, false);
                    (None, Err(Refusal::Unsendable(why)), Epoch(0))
                }
            },
            Err(abort) => {
                self.counts.refused += u64::from(abort.is_conflict());
                (None, Err(Refusal::of(&abort)), Epoch(0))
            }
        };
        let event = if prepared.is_some() { ParticipantEvent::Prepared } else { ParticipantEvent::Failed };
        participant.step(event, &mut act).map_err(illegal)?;
        let mut request = Vec::new();
        if faults.has(Fault::RepeatedDecision) {
            request = postcard::to_allocvec(&actions).unwrap_or_default();
        }
        let held = PreparedPart { id, peer, participant, prepared, vote: Some(vote), epoch, request };
        self.answer(c, session, held, act)
    }

    /// Runs and prepares actions; the epoch that has to be durable before their results leave.
    #[allow(clippy::type_complexity)]
    fn run(
        &mut self,
        session: &mut (dyn AnySession<'d> + 'd),
        id: GlobalId,
        actions: &[Q::Action],
    ) -> Result<(Vec<Q::Output>, AnyPrepared<'d>, Epoch), Abort> {
        let Setting { tables, durable, faults, .. } = self.setting;
        let mut outputs = Vec::with_capacity(actions.len());
        session.turn_to_another(false);
        let body = &mut |verbs: &mut dyn AnyVerbs| {
            enlist::<Q>(tables, actions.iter(), verbs);
            let verbs = &mut Transaction::new(verbs);
            for action in actions {
                outputs.push(execute::<Q>(tables, action, verbs)?);
            }
            Ok(())
        };
        let (prepared, epoch) = if durable && !faults.has(Fault::UnloggedPart) {
            let part = PartOf { global: id.number(), coordinator: id.coordinator.instance };
            let (prepared, vote) = session.prepare_as(part, &Bounds::default(), body)?;
            (prepared, vote.durable_with)
        } else {
            (session.prepare(&Bounds::default(), body)?.0, Epoch(0))
        };
        Ok((outputs, prepared, epoch))
    }

    /// Does what a participant wants, and holds the part unless nothing needs to be known of it any
    /// more.
    pub(crate) fn answer(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        mut held: PreparedPart<'d>,
        mut act: Vec<ParticipantAction>,
    ) -> Result<(), MemberError> {
        let (id, peer) = (held.id, held.peer);
        let from = self.peers[peer].name;
        let mut forget = false;
        let mut next = 0;
        while let Some(answer) = act.get(next).copied() {
            next += 1;
            match answer {
                ParticipantAction::Vote { .. } => match held.vote.take().unwrap_or(Err(Refusal::Conflict)) {
                    Ok(frame) => self.send_frame(c, peer, &frame),
                    Err(refusal) => self.send(c, peer, &Message::Vote { id, result: Err(refusal) })?,
                },
                ParticipantAction::Finish { commit } => match held.prepared.take() {
                    Some(prepared) => {
                        self.released += 1;
                        let commit = session.finish(prepared, commit);
                        held.epoch = held.epoch.max(commit.map_or(Epoch(0), |commit| commit.durable_with));
                    }
                    None => self.apply_again(session, id, &held.request),
                },
                ParticipantAction::AwaitDurable if session.is_durable(held.epoch) => {
                    let stepped = held.participant.step(ParticipantEvent::Durable, &mut act);
                    stepped.map_err(|error| MemberError::Illegal { from, error })?;
                }
                ParticipantAction::AwaitDurable => {
                    self.waiting.push_back((held.epoch, DurabilityWaiter::Part(id)))
                }
                ParticipantAction::Acknowledge => self.send(c, peer, &Message::Acknowledgement { id })?,
                ParticipantAction::Inquire => self.send(c, peer, &Message::Inquiry { id })?,
                ParticipantAction::Forget => forget = true,
                ParticipantAction::Prepare => {}
            }
        }
        act.clear();
        self.answers = act;
        if !forget {
            self.held.push(held);
        }
        Ok(())
    }

    /// Continues a part whose epoch is durable.
    pub(crate) fn part_is_durable(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        id: GlobalId,
    ) -> Result<(), MemberError> {
        // Its coordinator may have aborted it meanwhile.
        let Some(number) = self.held.iter().position(|held| held.id == id) else { return Ok(()) };
        let held = self.held.swap_remove(number);
        self.step_participant(c, session, held, ParticipantEvent::Durable)
    }

    /// Applies a decision again, as a mutant does.
    #[cold]
    fn apply_again(&mut self, session: &mut (dyn AnySession<'d> + 'd), id: GlobalId, request: &[u8]) {
        let actions: Vec<Q::Action> = postcard::from_bytes(request).unwrap_or_default();
        if let Ok((_, prepared, _)) = self.run(session, id, &actions) {
            session.finish(prepared, true);
        }
    }

    pub(crate) fn receive_decision(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        peer: usize,
        id: GlobalId,
        commit: bool,
    ) -> Result<(), MemberError> {
        let from = self.peers[peer].name;
        // A coordinator that there is no more has left its decisions to another worker of its
        // instance.
        if id.coordinator != from && home(id, self.peers.iter().map(|peer| peer.name)) != Some(from) {
            return Err(MemberError::Stranger { from, coordinator: id.coordinator });
        }
        let event = ParticipantEvent::Decided { commit };
        if let Some(number) = self.held.iter().position(|held| held.id == id) {
            let held = self.held.swap_remove(number);
            return self.step_participant(c, session, held, event);
        }
        // It is over: only an acknowledgement can be missing.
        let mut participant = Participant::new(false, false, self.setting.faults);
        let mut act = std::mem::take(&mut self.answers);
        let stepped = participant.step(event, &mut act);
        stepped.map_err(|error| MemberError::Illegal { from, error })?;
        let acknowledges = act.contains(&ParticipantAction::Acknowledge);
        act.clear();
        self.answers = act;
        if !acknowledges {
            return Ok(());
        }
        // An acknowledgement is the instance's: another worker may have the part, which was in
        // doubt.
        if !session.is_over(id.number()) {
            self.late.push((id, peer));
            return Ok(());
        }
        self.send(c, peer, &Message::Acknowledgement { id })
    }

    pub(crate) fn step_participant(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        mut held: PreparedPart<'d>,
        event: ParticipantEvent,
    ) -> Result<(), MemberError> {
        let from = self.peers[held.peer].name;
        let mut act = std::mem::take(&mut self.answers);
        held.participant.step(event, &mut act).map_err(|error| MemberError::Illegal { from, error })?;
        self.answer(c, session, held, act)
    }
}
