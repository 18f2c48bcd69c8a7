// The evidence of a bound session: the kind that a call needs, proofs and passes, and new evidence after a refusal.
import { AbortSignal, Response } from './platform'
import { KeyLost, Problem } from './values'
import { Credentials, Keeping } from './storage'
import { asked, base64url, bytes, jwk, ProofKey, ProofPublicKey, sha256, thrownByKey, thumbprint, unlikeOthers } from './keys'
import { SharedCall } from './waiting'
import { Answer, Attempt, Fields } from './calls'

/**
 * The evidence of a bound session's key that a call sends.
 * - `signIn`: a proof, which makes the key the owner of the new session.
 * - `session`: a pass, or a proof if the client's sessions need a proof with each request.
 * - `proof`: a proof, because the result of the call outlives a pass.
 */
export type Evidence = 'none' | 'signIn' | 'session' | 'proof'

/**
 * The evidence that a call lacks, added after the broker's refusal. Each kind is added at most once, so that a call cannot
 * loop.
 */
export class Mending {
    /** Whether the broker reported that this session is bound, regardless of the stored data. */
    bound = false
    /** Whether the broker gave the call a nonce. */
    nonce = false
    private fresh = false
    /** Whether the user has stepped up for the call. */
    steppedUp = false
    /** The proof of presence, valid until the broker refuses it. */
    presence: string | null = null
    private prompts = 0

    mends(problem: Problem, evidence: Evidence, repeatable: boolean): boolean {
        const before = { ...this }
        if (problem.code === 'use_dpop_nonce') {
            this.nonce = true
            return !before.nonce
        }
        if (evidence === 'signIn') return false
        if (problem.code === 'proof_required' || (problem.code === 'proof_invalid' && problem.reason === 'pass')) {
            this.bound = true
            return !before.bound
        }
        // The network may have sent the request twice. The other copy may have been successful.
        if (problem.code !== 'proof_invalid' || problem.reason !== 'replayed' || !repeatable) return false
        this.fresh = true
        return !before.fresh
    }

    /** Decides whether the user is asked for a call, for the first time or once more. */
    asks(problem: Problem, repeatable: boolean): boolean {
        // For a child session, the parent makes the call itself. If the broker refused a proof as `replayed`, the network may
        // have sent the request twice, and the other copy may have been successful.
        const asks = this.presence === null
            ? problem.code === 'presence_required' && !problem.parent && this.prompts === 0
            : problem.code === 'presence_invalid' && (problem.reason === 'nonce' || (problem.reason === 'replayed' && repeatable)) && this.prompts <= 1
        if (asks) this.prompts += this.presence === null ? 1 : 2
        return asks
    }
}

/** The evidence that the session's key gives for requests: proofs, and passes, which replace proofs. */
export class Proofs {
    /** The broker's newest nonce, and the time of its arrival. */
    nonce: string | null = null
    private nonceReceived = 0
    private making: Promise<ProofPublicKey> | null = null
    private renewing: { session: string; call: SharedCall<string | null> } | null = null
    /** Whether the client's sessions need a proof with each request. */
    private provesEach = false

    /** `renewal` requests a pass from the broker once. */
    constructor(
        private readonly key: ProofKey | undefined, private readonly keeping: Keeping,
        private readonly renewal: (session: string, signal: AbortSignal) => Promise<Attempt<Answer>>
    ) {}

    /** Keeps the nonce of a response. */
    hears(answer: Response): void {
        const nonce = answer.headers.get('DPoP-Nonce')
        if (nonce) [this.nonce, this.nonceReceived] = [nonce, Date.now()]
    }

    /** Whether the nonce remains valid for at least one minute. Its whole lifetime is five minutes. */
    hasYoungNonce(): boolean {
        const age = Date.now() - this.nonceReceived
        return this.nonce !== null && age >= 0 && age < 240_000
    }

    /** Returns the pass of a bound session, or null if the session needs none. Renews the pass if it is due. */
    async pass(signal?: AbortSignal): Promise<string | null> {
        const kept = await this.keeping.kept()
        if (!kept.session || (kept.lastSession && kept.lastSession.binding?.evidence !== 'pass')) return null
        try {
            return await this.passOf(kept.session, undefined, signal)
        } catch (lost) {
            if (lost instanceof KeyLost) await this.keeping.forget(kept.session)
            return thrownByKey(lost)
        }
    }

    /** Returns the header fields with a request's evidence. */
    async evidence(
        wanted: Evidence, method: string, url: string, session: string | null | undefined, mending: Mending,
        more: { before?: Credentials; asksForNonce?: boolean; signal?: AbortSignal }
    ): Promise<Fields> {
        const { key } = this
        if (wanted === 'signIn') return key ? { DPoP: await asked(this.signInProof(key, method, url)) } : {}
        const nonce = more.asksForNonce && !mending.nonce ? null : this.nonce
        if (wanted === 'none' || !session) return {}
        const now = more.before ?? (await this.keeping.kept())
        const kept: Credentials = now.session === session ? now : {}
        const binding = kept.lastSession?.binding
        if (wanted === 'session') {
            // The session may still be bound, because some storages do not keep its details.
            if (!mending.bound && !binding) return kept.pass ? { 'Coatcheck-Pass': kept.pass.value } : {}
            const pass = this.provesEach || binding?.evidence === 'proof' ? null : await this.passOf(session, more.before, more.signal)
            if (pass) return { 'Coatcheck-Pass': pass }
        } else if (kept.lastSession && !binding && !mending.bound) return {}
        return key ? { DPoP: await asked(this.sessionProof(key, nonce, method, url, session, binding?.jkt)) } : {}
    }

    /**
     * Decides whether a refused request is sent again at once. Forgets a pass that was refused. Throws if the session belongs
     * to another key than this device's.
     */
    async mends(
        problem: Problem, evidence: Evidence, repeatable: boolean, mending: Mending, sent: Fields, session: string | null | undefined
    ): Promise<boolean> {
        if (problem.status !== 401 || !this.key) return false
        if (problem.code === 'proof_invalid' && problem.reason === 'key') {
            await this.keeping.forget(session ?? undefined)
            throw new KeyLost()
        }
        if (!mending.mends(problem, evidence, repeatable)) return false
        const refused = sent['Coatcheck-Pass']
        if (refused && problem.reason !== 'replayed') await this.keeping.change(kept => (kept.pass?.value === refused ? { ...kept, pass: undefined } : kept))
        return true
    }

    /** Signs a request that starts a login or makes a session. Makes a key if necessary. */
    private async signInProof(key: ProofKey, method: string, url: string): Promise<string> {
        const known = (await key.publicKey()) ?? (await this.makeKey(key))
        try {
            return await this.proof(key, known, this.nonce, method, url)
        } catch (lost) {
            if (!(lost instanceof KeyLost)) throw lost
            return await this.proof(key, await this.makeKey(key, known), this.nonce, method, url)
        }
    }

    private async sessionProof(key: ProofKey, nonce: string | null, method: string, url: string, session: string, jkt?: string): Promise<string> {
        const known = await key.publicKey()
        if (!known || (jkt && jkt !== thumbprint(known))) throw new KeyLost()
        return await this.proof(key, known, nonce, method, url, session)
    }

    /**
     * Returns a DPoP proof (RFC 9449). Its time comes from the device's clock, which may be wrong, so the broker judges its age
     * by the nonce.
     */
    async proof(
        key: ProofKey, known: ProofPublicKey, nonce: string | null, method: string, url: string, session?: string
    ): Promise<string> {
        const header = `{"typ":"dpop+jwt","alg":"ES256","jwk":${jwk(known)}}`
        const claims = {
            jti: unlikeOthers(), htm: method, htu: url, iat: Math.floor(Date.now() / 1000), nonce: nonce ?? undefined,
            ath: session && base64url(sha256(bytes(session))),
        }
        const text = `${base64url(bytes(header))}.${base64url(bytes(JSON.stringify(claims)))}`
        return `${text}.${base64url(await key.sign(bytes(text)))}`
    }

    /** Makes one key for all waiting sign-ins, unless another sign-in has already replaced the lost key. */
    private makeKey(key: ProofKey, lost?: ProofPublicKey): Promise<ProofPublicKey> {
        const make = async () => {
            const now = await key.publicKey()
            return now && now.x !== lost?.x ? now : await key.make()
        }
        this.making = this.making ?? make().finally(() => { this.making = null })
        return this.making
    }

    /**
     * Returns the stored pass, or a new one if it is due. Simultaneous calls share one request. Returns null if the
     * sessions need proofs.
     */
    private async passOf(session: string, before?: Credentials, signal?: AbortSignal): Promise<string | null> {
        const now = before ?? (await this.keeping.kept())
        const pass = now.session === session ? now.pass : undefined
        if (!this.key || (pass && !isDue(pass))) return pass?.value ?? null
        if (!this.renewing?.call.isOpen || this.renewing.session !== session) {
            this.renewing = { session, call: new SharedCall(signal => this.renew(session, signal)) }
        }
        try {
            return await this.renewing.call.value(signal)
        } catch (lost) {
            // If the network is missing or the key is temporarily unavailable, the old pass is used once more.
            const passes = !(lost instanceof KeyLost) && (!(lost instanceof Problem) || lost.passes) && !signal?.aborted
            if (pass && passes) return pass.value
            throw lost
        }
    }

    private async renew(session: string, signal: AbortSignal): Promise<string | null> {
        const kept = await this.keeping.kept()
        // Another call may have renewed the pass while the storage was read.
        if (kept.session === session && kept.pass && !isDue(kept.pass)) return kept.pass.value
        try {
            const result = await this.renewal(session, signal)
            if (!('value' in result)) throw result.failure
            const pass = passOf(result.value.json)
            await this.keeping.change(now => (now.session === session ? { ...now, pass } : now))
            return pass?.value ?? null
        } catch (refused) {
            if (!(refused instanceof Problem) || refused.code !== 'client_not_allowed') throw refused
            this.provesEach = true
            return null
        }
    }
}

/** Returns the pass that a response contains. */
export function passOf(body: { pass?: string; expires_in: number } | undefined): Credentials['pass'] {
    return body?.pass ? { value: body.pass, received: Date.now(), lifetime: body.expires_in } : undefined
}

/**
 * Whether a pass needs a renewal. It does in the last minute of its lifetime (or the last quarter, if that is shorter), and
 * after the clock was set back.
 */
export function isDue(pass: { received: number; lifetime: number }): boolean {
    const age = (Date.now() - pass.received) / 1000
    return age < 0 || age > pass.lifetime - Math.min(60, pass.lifetime / 4)
}
