// The two ways to ask the user after a refused call: a step-up in the browser, and a prompt of the presence key.
import { AbortSignal } from './platform'
import {
    Cancelled, covers, joined, KeyLost, Options, PresenceKeyLost, Problem, Session, SignIn, StepUp, StepUpRequired,
    Unreachable, written
} from './values'
import { Keeping } from './storage'
import { ProofKey, thumbprint } from './keys'
import { SharedCall, sleep, Turn } from './waiting'
import { Mending } from './evidence'
import { Calls, Sent, User } from './calls'

/** A step-up, and the demands that it has to meet. Its call returns null if the app declined to open a browser for calls. */
export class SteppingUp {
    /** Whether further demands can still be added. */
    gathering = true
    call!: SharedCall<Session | null>
    /** Creates a step-up. `wanted` is true if the app itself requested it. */
    constructor(public demand: StepUp, public wanted: boolean) {}
}

/** The step-ups and the presence proofs. Calls wait while the user answers. */
export class Asking implements User {
    private readonly prompts = new Turn()
    private readonly pages = new Turn()
    private steppingUp: SteppingUp[] = []
    stepUps = 0
    /** The demand that the last step-up met. */
    private met: StepUp | null = null
    /** How long a step-up waits for further refused calls, to combine their demands, in milliseconds. */
    private gathering = 100

    /** `signInAgain` opens a step-up's page, and returns the session after the user signed in. */
    constructor(
        private readonly options: Options, private readonly keeping: Keeping, private readonly calls: Calls,
        private readonly signInAgain: (page: string, signal: AbortSignal) => Promise<SignIn>
    ) {}

    // ---- Step-ups ----------------------------------------------------------------------------------------------------

    /** Asks the user to sign in again for the app itself. */
    async stepUp(demand: StepUp, signal?: AbortSignal): Promise<Session> {
        for (;;) {
            // Null means that the app declined a step-up for refused calls. The app's own request is still open, so it tries
            // again.
            const session = await this.joinStepUp(demand, true, signal)
            if (session) return session
        }
    }

    /** Starts a step-up and returns the page to open. Continue with `finish`. */
    async startStepUp(demand: StepUp, signal?: AbortSignal): Promise<string> {
        // The proof comes from the session's key, as for its other calls. A new key is never made here.
        const answer = await this.calls.call('POST', '/v1/logins', { body: { step_up: written(demand) }, evidence: 'proof', signal })
        return await this.keeping.keepLogin(answer.json)
    }

    private async joinStepUp(demand: StepUp, wanted: boolean, signal?: AbortSignal): Promise<Session | null> {
        for (const one of this.steppingUp.filter(one => one.call.isOpen)) {
            const both = one.gathering && joined(one.demand, demand)
            if (both) [one.demand, one.wanted] = [both, one.wanted || wanted]
            if (both || covers(one.demand, demand)) return await one.call.value(signal)
        }
        const one = new SteppingUp(demand, wanted)
        one.call = new SharedCall(signal => this.pages.taken(() => this.run(one, signal), signal))
        this.steppingUp.push(one)
        try {
            return await one.call.value(signal)
        } finally {
            this.steppingUp = this.steppingUp.filter(one => one.call.isOpen)
        }
    }

    private async run(one: SteppingUp, signal: AbortSignal): Promise<Session | null> {
        // Wait, because simultaneous calls receive their refusals one after the other.
        await sleep(this.gathering, signal)
        one.gathering = false
        if (!one.wanted && !(await this.options.onStepUp?.(one.demand))) return null
        if (!this.options.browser) throw new Error('no browser was given')
        const signIn = await this.signInAgain(await this.startStepUp(one.demand, signal), signal)
        if (signIn.kind !== 'signedIn') throw new Error('not the answer to a step-up')
        this.stepUps += 1
        this.met = one.demand
        return signIn.session
    }

    /** Runs one step-up for a call that was refused because it needs one. Throws if a step-up is impossible or declined. */
    private async stepUpFor(refused: StepUpRequired, mending: Mending, sentAfter: number, signal?: AbortSignal): Promise<void> {
        if (mending.steppedUp || refused.parent || !this.options.onStepUp) throw refused
        mending.steppedUp = true
        // If another call's step-up ended before the refusal of this call arrived, this call needs none.
        if (sentAfter < this.stepUps && this.met && covers(this.met, refused.stepUp)) return
        if (!(await this.joinStepUp(refused.stepUp, false, signal))) throw refused
    }

    // ---- The user's presence -----------------------------------------------------------------------------------------

    /** Registers the presence key, and returns the state of the session. */
    async registerPresenceKey(signal?: AbortSignal): Promise<Session> {
        const key = this.presenceKey()
        const known = await key.publicKey()
        const registered = (await this.keeping.kept()).lastSession?.presence
        if (registered && (!known || thumbprint(known) !== registered.jkt)) throw new PresenceKeyLost()
        if (!known) await key.make()
        // The first attempt skips the prompt. If the sign-in is too old, the broker refuses before the user is asked.
        return await this.calls.remembered('PUT', '/v1/session/presence-key', { evidence: 'proof', registers: true, signal })
    }

    presenceKey(): ProofKey {
        if (!this.options.presenceKey || !this.options.key) throw new TypeError('no key was given that asks for the user, or none beside it')
        return this.options.presenceKey
    }

    /** Whether there is a key that can ask the user. */
    async canAsk(session: string | null | undefined, registers?: boolean): Promise<boolean> {
        if (!this.options.presenceKey || !this.options.key || !session) return false
        const kept = await this.keeping.kept()
        const known = kept.session === session ? kept.lastSession : undefined
        return !known || (!!known.binding && (!!known.presence || !!registers))
    }

    /**
     * Asks the user for the step that the refused call lacks, and returns whether the call is sent again. Throws if the user or
     * the app refuses.
     */
    async asksUser(
        problem: Problem, sent: Sent, mending: Mending, signal?: AbortSignal
    ): Promise<boolean> {
        if (problem instanceof StepUpRequired) {
            await this.stepUpFor(problem, mending, sent.stepUps, signal)
            return true
        }
        if (problem.code === 'presence_invalid' && problem.reason === 'key') throw new PresenceKeyLost()
        if (!sent.session || !(await this.canAsk(sent.session, sent.registers)) || !mending.asks(problem, sent.repeatable)) return false
        mending.presence = await this.presence(sent.method, sent.address, sent.session, sent.registers, signal)
        return true
    }

    /** Returns the proof of the user's presence for one request. Only one prompt is open at a time. */
    async presence(method: string, address: string, session: string, registers?: boolean, signal?: AbortSignal): Promise<string> {
        const key = this.presenceKey()
        return await this.prompts.taken(async () => {
            if (!this.calls.proofs.hasYoungNonce()) {
                // Fetch a fresh nonce. Otherwise the nonce could expire while the user answers the prompt.
                await this.calls.call('GET', '/v1/session', { as: session, evidence: 'proof', asksForNonce: true, signal })
                if (!this.calls.proofs.hasYoungNonce()) throw new Unreachable('no nonce came')
            }
            const kept = await this.keeping.kept()
            const registered = kept.session === session ? kept.lastSession?.presence : null
            const known = await key.publicKey()
            if (!known || (registered && registered.jkt !== thumbprint(known))) throw new PresenceKeyLost()
            try {
                return await this.calls.proofs.proof(key, known, this.calls.proofs.nonce, method, address, session)
            } catch (lost) {
                // A refusal by the user applies to all waiting calls.
                if (lost instanceof Cancelled) this.prompts.refuse(lost)
                if (!(lost instanceof KeyLost)) throw lost
                // The key is from an earlier session and can no longer sign. Only a registration replaces it by a new key.
                if (!registers) throw new PresenceKeyLost()
                return await this.calls.proofs.proof(key, await key.make(), this.calls.proofs.nonce, method, address, session)
            }
        }, signal)
    }
}
