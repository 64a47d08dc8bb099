//! What a member does for the transactions of others.

use cc::Abort;
use engine::dynamic::{AnyPrepared, AnySession, Transaction};
use engine::{Bounds, Procedure};
use platform::link::Links;

use crate::flight::{Held, enlist, execute};
use crate::member::Member;
use crate::messages::{GlobalId, Message, Refusal};
use crate::protocol::{Answer, Heard, Participant};
use crate::setting::MemberError;

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
        let mut act = std::mem::take(&mut self.answers);
        act.clear();
        if let Some(held) = self.held.iter_mut().find(|held| held.id == id) {
            return held.participant.step(Heard::Asked, &mut act).map_err(illegal);
        }
        let mut participant = Participant::new(is_last, only_reads, rules);
        participant.step(Heard::Asked, &mut act).map_err(illegal)?;
        act.clear();
        let (prepared, mut result) = match self.run(session, actions) {
            Ok((outputs, prepared)) => {
                self.counts.served += 1;
                (Some(prepared), Ok(outputs))
            }
            Err(abort) => {
                self.counts.refused += u64::from(abort.is_conflict());
                (None, Err(Refusal::of(&abort)))
            }
        };
        let heard = if prepared.is_some() { Heard::Prepared } else { Heard::Failed };
        participant.step(heard, &mut act).map_err(illegal)?;
        let mut request = Vec::new();
        if !rules.applies_once {
            request = postcard::to_allocvec(actions).unwrap_or_default();
        }
        let mut held = Held { id, participant, prepared, request };
        let mut forget = false;
        for answer in act.drain(..) {
            match answer {
                Answer::Vote { .. } => {
                    let result = std::mem::replace(&mut result, Err(Refusal::Conflict));
                    self.say(c, peer, &Message::Vote { id, result })?;
                }
                answer => forget |= self.apply(c, session, peer, (&mut held, answer))?,
            }
        }
        self.answers = act;
        if !forget {
            self.held.push(held);
        }
        Ok(())
    }

    /// Runs and prepares actions.
    fn run(
        &mut self,
        session: &mut (dyn AnySession<'d> + 'd),
        actions: &[Q::Action],
    ) -> Result<(Vec<Q::Output>, AnyPrepared<'d>), Abort> {
        let tables = self.setting.tables;
        let mut outputs = Vec::with_capacity(actions.len());
        session.turn_to_another(false);
        let prepared = session.prepare(&Bounds::default(), &mut |verbs| {
            enlist::<Q>(tables, actions.iter(), verbs);
            let verbs = &mut Transaction::new(verbs);
            for action in actions {
                outputs.push(execute::<Q>(tables, action, verbs)?);
            }
            Ok(())
        })?;
        Ok((outputs, prepared))
    }

    /// Does what a participant wants; whether nothing needs to be known of it any more.
    fn apply(
        &mut self,
        c: P::Core,
        session: &mut (dyn AnySession<'d> + 'd),
        peer: usize,
        (held, answer): (&mut Held<'d>, Answer),
    ) -> Result<bool, MemberError> {
        match answer {
            Answer::Finish { commit } => match held.prepared.take() {
                Some(prepared) => {
                    session.finish(prepared, commit);
                }
                None => self.apply_again(session, &held.request),
            },
            Answer::Acknowledge => self.say(c, peer, &Message::Acknowledgement { id: held.id })?,
            Answer::Forget => return Ok(true),
            Answer::Prepare | Answer::Vote { .. } => {}
        }
        Ok(false)
    }

    /// What a mutant does with a decision that it has applied already.
    #[cold]
    fn apply_again(&mut self, session: &mut (dyn AnySession<'d> + 'd), request: &[u8]) {
        let actions: Vec<Q::Action> = postcard::from_bytes(request).unwrap_or_default();
        if let Ok((_, prepared)) = self.run(session, &actions) {
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
        let from = self.peers[peer].name;
        let known = self.held.iter().position(|held| held.id == id);
        let mut held = match known {
            Some(number) => self.held.swap_remove(number),
            // It is over: only an acknowledgement can be missing.
            None => {
                let participant = Participant::new(false, false, self.setting.rules);
                Held { id, participant, prepared: None, request: Vec::new() }
            }
        };
        let mut act = std::mem::take(&mut self.answers);
        act.clear();
        let stepped = held.participant.step(Heard::Told { commit }, &mut act);
        stepped.map_err(|error| MemberError::Illegal { from, error })?;
        let mut forget = known.is_none();
        for answer in act.drain(..) {
            forget |= self.apply(c, session, peer, (&mut held, answer))?;
        }
        self.answers = act;
        if !forget {
            self.held.push(held);
        }
        Ok(())
    }
}
