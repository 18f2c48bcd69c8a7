// The requests to the broker, and the consequences of their answers.
import { AbortSignal, Fetch, fetch, Headers, RequestInit, Response } from './platform'
import { KeyLost, Options, Problem, Session, StepUpRequired, Unreachable } from './values'
import { Credentials, Keeping } from './storage'
import { KeyFailure, thrownByKey } from './keys'
import { limited, reasonOf, sleep } from './waiting'
import { Evidence, Mending, Proofs } from './evidence'

/** A request to make, apart from its method and path. */
export interface Call {
    query?: string
    body?: unknown
    /** The session token of the call. The default is the stored token. With null, the call has no session token. */
    as?: string | null
    /** The evidence. The default is `session`. */
    evidence?: Evidence
    /** The stored credentials from before the sign-out. */
    before?: Credentials
    /** Whether the call sends a proof that has no nonce, so that the broker answers with one. */
    asksForNonce?: boolean
    /** Whether the call registers the presence key. */
    registers?: boolean
    deadline?: number
    signal?: AbortSignal
}

/** The result of an attempt, or the reason for another attempt. `atOnce` is set after the user did the missing step. */
export type Attempt<Value> = { value: Value } | { failure: Error; retryAfter?: number | null; atOnce?: true }

/** Header fields. */
export type Fields = { [name: string]: string }

/** A response that was read to its end. */
export interface Answer { status: number; headers: Headers; json: any }

/** A request that was refused. `stepUps` is the number of step-ups before it was sent. */
export interface Sent { method: string; address: string; session?: string | null; repeatable: boolean; registers?: boolean; stepUps: number }

/** The user, whom a refused call may ask for a missing step. */
export interface User {
    /** The number of step-ups so far. */
    readonly stepUps: number
    asksUser(problem: Problem, sent: Sent, mending: Mending, signal?: AbortSignal): Promise<boolean>
}

/** The requests to the broker. A request is repeated and corrected as long as that can help. */
export class Calls {
    readonly broker: string
    readonly deadline: number
    readonly proofs: Proofs
    /** The user, set once by the constructor of `Coatcheck`. */
    user!: User
    private readonly own: Fetch | undefined
    private ending = false

    constructor(private readonly options: Options, readonly keeping: Keeping) {
        this.broker = options.broker.replace(/\/$/, '')
        this.deadline = options.deadline ?? 60_000
        this.own = options.fetch
        this.proofs = new Proofs(options.key, keeping, (session, signal) =>
            this.attempt('POST', '/v1/session/pass', { evidence: 'proof', as: session, signal }, new Mending(), 40_000))
    }

    /** Sends a request, and keeps the nonce of its response. */
    async send(input: string, init?: object): Promise<Response> {
        const { own } = this
        const answer: Response = await (own ? own(input, init as RequestInit) : fetch(input, init as RequestInit))
        this.proofs.hears(answer)
        return answer
    }

    credentials(): 'include' | 'omit' { return this.options.transport === 'cookie' ? 'include' : 'omit' }

    /** Calls the broker, and repeats the call as long as that can help. Every call of the API may be repeated. */
    async call(method: string, path: string, call: Call, ending = false): Promise<Answer> {
        const mending = new Mending()
        return await this.repeated<Answer>(call.deadline ?? this.deadline, call.signal, limit => this.attempt(method, path, call, mending, limit, ending))
    }

    /** Calls the broker once. If the broker refuses evidence that can be corrected, calls it once more. */
    async attempt(method: string, path: string, call: Call, mending: Mending, limit: number, ending = false): Promise<Attempt<Answer>> {
        const begin = Date.now()
        const stepUps = this.user.stepUps
        const evidence = call.evidence ?? 'session'
        const session = call.as === undefined ? (await this.keeping.kept()).session : call.as
        const headers: Fields = {}
        if (session && this.options.transport === 'bearer') headers.Authorization = `Bearer ${session}`
        if (call.body !== undefined) headers['Content-Type'] = 'application/json'
        if (mending.presence) headers['Coatcheck-Presence'] = mending.presence
        const url = this.broker + path + (call.query ? `?${call.query}` : '')
        const body = call.body === undefined ? undefined : JSON.stringify(call.body)
        let answer: Response
        let text: string
        try {
            [answer, text] = await limited(limit, call.signal, async signal => {
                const more = { signal, before: call.before, asksForNonce: call.asksForNonce }
                Object.assign(headers, await this.proofs.evidence(evidence, method, this.broker + path, session, mending, more))
                const answer = await this.send(url, { method, headers, body, signal, redirect: 'manual', credentials: this.credentials() })
                return [answer, await answer.text()] as [Response, string]
            })
        } catch (lost) {
            return await this.unsent(lost, session, call.signal)
        }
        const json = parsed(text)
        if (answer.ok && (json !== undefined || answer.status === 204)) {
            if (!ending) this.endSessions()
            return { value: { status: answer.status, headers: answer.headers, json } }
        }
        // If a proxy's page answers, the state of the session is as unknown as after a missing response.
        if (!isProblem(answer, json)) return { failure: new Unreachable(`status ${answer.status}, not the broker's`) }
        const problem = problemOf(json)
        await this.learn(problem, session ?? undefined)
        if (await this.proofs.mends(problem, evidence, true, mending, headers, session)) {
            return await this.attempt(method, path, call, mending, Math.max(1, limit - (Date.now() - begin)), ending)
        }
        const sent = { method, address: this.broker + path, session, repeatable: true, registers: call.registers, stepUps }
        if (await this.user.asksUser(problem, sent, mending, call.signal)) return { failure: problem, atOnce: true }
        if (!problem.passes) throw problem
        return { failure: problem, retryAfter: retryAfter(answer.headers) }
    }

    /** Decides about a request without a response: returns a temporary failure, or throws. */
    async unsent(lost: unknown, session: string | null | undefined, signal?: AbortSignal): Promise<{ failure: Error }> {
        // The broker is not informed of a lost key, because another device may still have the key and use the session. An
        // example is a phone whose backup was restored here.
        if (lost instanceof KeyLost) await this.keeping.forget(session ?? undefined)
        if (signal?.aborted || lost instanceof KeyLost || lost instanceof KeyFailure || (lost instanceof Problem && !lost.passes)) throw lost
        return { failure: lost instanceof Problem ? lost : new Unreachable(String(lost)) }
    }

    /** Repeats an attempt until it returns a value, throws, or the deadline has passed. */
    async repeated<Value>(
        deadline: number, signal: AbortSignal | undefined,
        attempt: (limit: number) => Promise<Attempt<Value>>
    ): Promise<Value> {
        let begin = Date.now()
        for (let number = 0; ; number += 1) {
            if (signal?.aborted) throw reasonOf(signal)
            // The first attempt gets at least one second, even with a very short deadline.
            const result = await attempt(Math.max(deadline - (Date.now() - begin), number === 0 ? 1_000 : 1)).catch(thrownByKey)
            if ('value' in result) return result.value
            if (result.atOnce) {
                // The time that the user needs for the prompt does not count for the deadline.
                [begin, number] = [Date.now(), -1]
                continue
            }
            const growing = (200 + Math.random() * 200) * 2 ** Math.min(number, 6)
            const pause = result.retryAfter ? result.retryAfter + Math.random() * 250 : growing
            if (pause > Math.min(deadline - (Date.now() - begin), 30_250)) throw result.failure
            await sleep(pause, signal)
        }
    }

    async problem(answer: Response): Promise<Problem | null> {
        if (answer.status < 400 || !isProblemType(answer)) return null
        const json = parsed(await answer.text())
        return isProblem(answer, json) ? problemOf(json) : null
    }

    async learn(problem: Problem, sent: string | undefined): Promise<void> {
        if (problem.endsSession) await this.keeping.forget(sent)
        if (problem.json.login) await this.keeping.keepLogin(problem.json.login)
    }

    /** Requests the session and keeps it, unless another session replaced it meanwhile. */
    async remembered(method: string, path: string, call: Call): Promise<Session> {
        const sent = (await this.keeping.kept()).session
        const sessions = this.keeping.sessions
        return await this.keeping.remember((await this.call(method, path, call)).json, sent, sessions)
    }

    /**
     * Ends a session that was signed out on this device, and forgets it. With the credentials from before the sign-out, it
     * also requests the provider's logout page.
     */
    async end(ending: string | null, before?: Credentials, signal?: AbortSignal): Promise<Answer> {
        // The broker ends a session without evidence, but returns the logout page only with evidence.
        const more: Partial<Call> = before ? { query: 'logout_url=true', evidence: 'session', before } : { evidence: 'none' }
        const answer = await this.call('DELETE', '/v1/session', { ...more, as: ending ?? undefined, signal }, true)
        await this.keeping.change(kept => ({ ...kept, endings: kept.endings?.filter(one => one !== ending) }))
        return answer
    }

    /** Ends, in the background, the sessions that were signed out while the broker was unreachable. */
    async endSessions(): Promise<void> {
        if (this.ending) return
        this.ending = true
        try {
            for (const ending of (await this.keeping.kept()).endings ?? []) await this.end(ending)
        } catch {
            // The next successful call tries again.
        } finally {
            this.ending = false
        }
    }
}

/** Returns the address for the request and for its proof. Characters that are forbidden in an address are escaped. */
export function escaped(url: string): string { return url.replace(/[^\x21-\x7e]+|["<>`{}]/g, encodeURIComponent) }

export function parsed(text: string): any {
    try {
        return text === '' ? undefined : JSON.parse(text)
    } catch {
        return undefined
    }
}

export function isProblemType(answer: Response): boolean { return (answer.headers.get('Content-Type') ?? '').startsWith('application/problem+json') }

export function isProblem(answer: Response, json: any): boolean { return isProblemType(answer) && typeof json?.code === 'string' && typeof json.status === 'number' }

export function problemOf(json: { [member: string]: any }): Problem {
    return json.status === 401 && json.code === 'step_up_required' ? new StepUpRequired(json) : new Problem(json)
}

export function retryAfter(headers: Headers): number | null {
    const seconds = Number.parseInt(headers.get('Retry-After') ?? '', 10)
    return Number.isFinite(seconds) ? seconds * 1000 : null
}
