//! What a member does for the transactions of others.

use cc::Abort;
use engine::dynamic::{AnyPrepared, AnySession, AnyVerbs, Transaction};
use engine::{Bounds, Epoch, PartOf, Procedure};
use platform::link::Links;

use crate::flight::{Held, enlist, execute};
use crate::member::{Member, Waiter};
use crate::messages::{GlobalId, Message, Refusal};
use crate::protocol::{Answer, Heard, Participant};
use crate::setting::{MemberError, Setting};

impl<'d, P: Links, Q: Procedure, T> Member<'d, P, Q, T> {
    /// Prepares a part for another worker, and votes.
    pub(crate) fn serve(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        peer: usize,
        (id, is_last, only_reads): (GlobalId, bool, bool),
        actions: &[Q::Action],
    ) -> Result<(), MemberError> {
        let from = self.peers[peer].name;
        let illegal = |error| MemberError::Illegal { from, error };
        let rules = self.setting.rules;
        if !self.is_open() {
            return self.say(c, peer, &Message::Vote { id, result: Err(Refusal::Conflict) });
        }
        let mut act = std::mem::take(&mut self.answers);
        act.clear();
        if let Some(held) = self.held.iter_mut().find(|held| held.id == id) {
            return held.participant.step(Heard::Asked, &mut act).map_err(illegal);
        }
        let mut participant = Participant::new(is_last, only_reads, rules);
        participant.step(Heard::Asked, &mut act).map_err(illegal)?;
        act.clear();
        let (prepared, result, epoch) = match self.run(session, id, actions) {
            Ok((outputs, prepared, epoch)) => {
                self.counts.served += 1;
                (Some(prepared), Ok(outputs), epoch)
            }
            Err(abort) => {
                self.counts.refused += u64::from(abort.is_conflict());
                (None, Err(Refusal::of(&abort)), Epoch(0))
            }
        };
        let heard = if prepared.is_some() { Heard::Prepared } else { Heard::Failed };
        participant.step(heard, &mut act).map_err(illegal)?;
        let mut request = Vec::new();
        if !rules.applies_once {
            request = postcard::to_allocvec(actions).unwrap_or_default();
        }
        let held = Held { id, peer, participant, prepared, result: Some(result), epoch, request };
        self.answer(c, session, held, act)
    }

    /// Runs and prepares actions; the epoch that has to be durable before anybody hears of it.
    #[allow(clippy::type_complexity)]
    fn run(
        &mut self,
        session: &mut (dyn AnySession<'d> + 'd),
        id: GlobalId,
        actions: &[Q::Action],
    ) -> Result<(Vec<Q::Output>, AnyPrepared<'d>, Epoch), Abort> {
        let Setting { tables, durable, rules, .. } = self.setting;
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
        let (prepared, epoch) = if durable && rules.records_parts {
            let part = PartOf { global: id.number(), coordinator: id.coordinator.instance };
            let (prepared, vote) = session.prepare_as(part, &Bounds::default(), body)?;
            (prepared, vote.durable_with)
        } else {
            (session.prepare(&Bounds::default(), body)?.0, Epoch(0))
        };
        Ok((outputs, prepared, epoch))
    }

    /// Does what a participant wants, and holds the part unless nothing needs to be known of it any more.
    pub(crate) fn answer(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        mut held: Held<'d, Q::Output>,
        mut act: Vec<Answer>,
    ) -> Result<(), MemberError> {
        let (id, peer) = (held.id, held.peer);
        let from = self.peers[peer].name;
        let mut forget = false;
        let mut next = 0;
        while let Some(answer) = act.get(next).copied() {
            next += 1;
            match answer {
                Answer::Vote { .. } => {
                    let result = held.result.take().unwrap_or(Err(Refusal::Conflict));
                    self.say(c, peer, &Message::Vote { id, result })?;
                }
                Answer::Finish { commit } => match held.prepared.take() {
                    Some(prepared) => {
                        self.released += 1;
                        let commit = session.finish(prepared, commit);
                        held.epoch = held.epoch.max(commit.map_or(Epoch(0), |commit| commit.durable_with));
                    }
                    None => self.apply_again(session, id, &held.request),
                },
                Answer::AwaitDurable if session.is_durable(held.epoch) => {
                    let stepped = held.participant.step(Heard::Durable, &mut act);
                    stepped.map_err(|error| MemberError::Illegal { from, error })?;
                }
                Answer::AwaitDurable => self.waiting.push_back((held.epoch, Waiter::Part(id))),
                Answer::Acknowledge => self.say(c, peer, &Message::Acknowledgement { id })?,
                Answer::Inquire => self.say(c, peer, &Message::Inquiry { id })?,
                Answer::Forget => forget = true,
                Answer::Prepare => {}
            }
        }
        act.clear();
        self.answers = act;
        if !forget {
            self.held.push(held);
        }
        Ok(())
    }

    /// What a part has waited for is durable.
    pub(crate) fn part_is_durable(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        id: GlobalId,
    ) -> Result<(), MemberError> {
        // It may have been told to abort meanwhile.
        let Some(number) = self.held.iter().position(|held| held.id == id) else { return Ok(()) };
        let held = self.held.swap_remove(number);
        self.hear_of(c, session, held, Heard::Durable)
    }

    /// What a mutant does with a decision that it has applied already.
    #[cold]
    fn apply_again(&mut self, session: &mut (dyn AnySession<'d> + 'd), id: GlobalId, request: &[u8]) {
        let actions: Vec<Q::Action> = postcard::from_bytes(request).unwrap_or_default();
        if let Ok((_, prepared, _)) = self.run(session, id, &actions) {
            session.finish(prepared, true);
        }
    }

    pub(crate) fn hear_decision(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        peer: usize,
        (id, commit): (GlobalId, bool),
    ) -> Result<(), MemberError> {
        let heard = Heard::Told { commit };
        if let Some(number) = self.held.iter().position(|held| held.id == id) {
            let held = self.held.swap_remove(number);
            return self.hear_of(c, session, held, heard);
        }
        // It is over: only an acknowledgement can be missing.
        let mut participant = Participant::new(false, false, self.setting.rules);
        let mut act = std::mem::take(&mut self.answers);
        let stepped = participant.step(heard, &mut act);
        stepped.map_err(|error| MemberError::Illegal { from: self.peers[peer].name, error })?;
        let acknowledges = act.contains(&Answer::Acknowledge);
        act.clear();
        self.answers = act;
        if !acknowledges {
            return Ok(());
        }
        // An acknowledgement is the instance's: another worker may have the part, which was in doubt.
        if !session.is_over(id.number()) {
            self.late.push((id, peer));
            return Ok(());
        }
        self.say(c, peer, &Message::Acknowledgement { id })
    }

    pub(crate) fn hear_of(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        mut held: Held<'d, Q::Output>,
        heard: Heard,
    ) -> Result<(), MemberError> {
        let from = self.peers[held.peer].name;
        let mut act = std::mem::take(&mut self.answers);
        held.participant.step(heard, &mut act).map_err(|error| MemberError::Illegal { from, error })?;
        self.answer(c, session, held, act)
    }
}
