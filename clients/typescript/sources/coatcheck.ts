// A client of Coatcheck in one file to copy, without dependencies. Use it for React Native with a bearer client, or for the
// web with a cookie client. The app passes a storage and a browser. If the global `fetch` is unsuitable, the app also passes another
// `fetch`.
//
//     const coatcheck = new Coatcheck({ broker: 'https://auth.example.com', client: 'android', transport: 'bearer', storage, browser })
//     const signIn = await coatcheck.signIn('oidc')
//
// Make one object and share it. A call is repeated automatically if that is safe, as docs/apps/native-apps.md describes. Methods
// throw a Problem, an Unreachable, a LoginFailed, a KeyLost, a PresenceKeyLost, a Cancelled, or the reason of an aborted
// AbortSignal.
import { AbortSignal, crypto, RequestInit, Response } from './platform'
import {
    AppLogin, Child, HandOverCookie, KeyLost, LoginFailed, MovedIn, newest, Options, Problem, Registration, Session, SessionEvent,
    SignIn, Standing, StepUp, Unreachable, written
} from './values'
import { Credentials, Keeping } from './storage'
import { base64url, bytes, sha256 } from './keys'
import { SharedCall, sleep } from './waiting'
import { Evidence, Mending, passOf } from './evidence'
import { Answer, Calls } from './calls'
import { Asking } from './asking'
import { listened, relayed } from './relay'

/** The broker for one app on one device. */
export class Coatcheck {
    private readonly keeping: Keeping
    private readonly calls: Calls
    private readonly user: Asking
    private asking: SharedCall<Session> | null = null
    private signingIn = new Map<string, SharedCall<SignIn>>()
    private moving: SharedCall<MovedIn> | null = null
    private moveInPause = sleep

    constructor(private readonly options: Options) {
        if (options.key && options.transport !== 'bearer') throw new TypeError('a cookie that no script sees cannot be proved')
        this.keeping = new Keeping(options.storage)
        this.calls = new Calls(options, this.keeping)
        this.user = new Asking(options, this.keeping, this.calls, (page, signal) => this.follow(page, undefined, 0, signal, 'proof'))
        this.calls.user = this.user
    }

    // ---- Signing in --------------------------------------------------------------------------------------------------

    /**
     * Signs the user in: starts a login, opens its page, and forwards the callback. A second call for the same provider
     * joins the first. `stepUp` is a demand on the sign-in. With its `maxAge`, even a user with a session at the provider
     * has to sign in again.
     */
    async signIn(
        provider: string,
        more: { device?: string; socialProvider?: string; parameters?: { [name: string]: string }; stepUp?: StepUp; signal?: AbortSignal } = {}
    ): Promise<SignIn> {
        let call = this.signingIn.get(provider)
        if (!call?.isOpen) {
            call = new SharedCall(async signal => {
                const page = await this.start(provider, { ...more, signal })
                return await this.follow(page, more.device, 1, signal)
            })
            this.signingIn.set(provider, call)
        }
        try {
            return await call.value(more.signal)
        } finally {
            if (!call.isOpen && this.signingIn.get(provider) === call) this.signingIn.delete(provider)
        }
    }

    /** Starts a login and returns the page to open, which must never open in a web view. Continue with `finish`. */
    async start(
        provider: string, more: { socialProvider?: string; parameters?: { [name: string]: string }; stepUp?: StepUp; signal?: AbortSignal } = {}
    ): Promise<string> {
        const body = {
            provider, client: this.options.client, social_provider: more.socialProvider, parameters: more.parameters, step_up: written(more.stepUp),
        }
        const answer = await this.calls.call('POST', '/v1/logins', { body, as: null, evidence: 'signIn', signal: more.signal })
        return await this.keeping.keepLogin(answer.json)
    }

    /** Finishes a sign-in with the whole, unchanged URL that the browser returned, even after a restart of the app. */
    async finish(callback: string, more: { device?: string; signal?: AbortSignal } = {}): Promise<SignIn> {
        return await this.finishOrFollow(callback, more.device, 1, more.signal)
    }

    /**
     * Forwards the whole, unchanged callback URL of a login that the app started with its own library (flow B). If the
     * library does not reveal the URL, use `forwardCode`.
     */
    async forward(callback: string, login: AppLogin, more: { device?: string; signal?: AbortSignal } = {}): Promise<SignIn> {
        const body = { callback_url: callback, state: login.state, code_verifier: login.codeVerifier, scope: login.scope }
        return await this.forwarded({ ...this.body(login, more.device), ...body }, more.signal)
    }

    /**
     * Forwards a code without its callback. Libraries that check the callback themselves, such as AppAuth, give such a
     * code, which needs the login's `codeVerifier`. A provider's native SDK also gives a code (clients with `native_code`),
     * without a verifier.
     */
    async forwardCode(code: string, login: AppLogin, more: { device?: string; signal?: AbortSignal } = {}): Promise<SignIn> {
        const body = { code, code_verifier: login.codeVerifier, redirect_uri: login.redirectURI, scope: login.scope }
        return await this.forwarded({ ...this.body(login, more.device), ...body }, more.signal)
    }

    /**
     * Forwards the ID token that a provider's native SDK gave the app (clients with `native_code`), with the login's
     * `nonce`.
     */
    async forwardIDToken(idToken: string, login: AppLogin, more: { device?: string; signal?: AbortSignal } = {}): Promise<SignIn> {
        return await this.forwarded({ ...this.body(login, more.device), id_token: idToken }, more.signal)
    }

    /**
     * Finishes a Zephr registration. After `registration_rejected`, the attributes can be corrected once with the same
     * registration.
     */
    async register(
        registration: Registration, attributes: { [name: string]: string | number | boolean }, signal?: AbortSignal
    ): Promise<Session> {
        const body = {
            provider: registration.provider, client: this.options.client, state_key: registration.state_key, attributes,
            login_token: (await this.keeping.kept()).login,
        }
        return await this.made(await this.calls.call('POST', '/v1/registrations', { body, evidence: 'signIn', signal }))
    }

    /** Returns the providers that the broker offers, with the data for the app's sign-in buttons. */
    async providers(signal?: AbortSignal): Promise<{ name: string; kind: string; display_name: string; clients: { name: string }[] }[]> {
        return (await this.calls.call('GET', '/v1/providers', { as: null, evidence: 'none', signal })).json.items
    }

    private body(login: AppLogin, device?: string): object {
        return { provider: login.provider, client: login.client, nonce: login.nonce, login_token: login.loginToken, device }
    }

    private async follow(
        page: string, device: string | undefined, restarts: number, signal?: AbortSignal, evidence: Evidence = 'signIn'
    ): Promise<SignIn> {
        if (!this.options.browser) throw new Error('no browser was given')
        const callback = await this.options.browser.open(page, signal)
        return await this.finishOrFollow(callback, device, restarts, signal, evidence)
    }

    private async finishOrFollow(
        callback: string, device: string | undefined, restarts: number, signal?: AbortSignal, evidence: Evidence = 'signIn'
    ): Promise<SignIn> {
        const kept = await this.keeping.kept()
        let body: object = { callback_url: callback, device, login_token: kept.login }
        // A hosted callback contains our login's ID. A provider's callback does not.
        const query = callback.split('#')[0].split('?').slice(1).join('?')
        if (kept.loginId && parameter(query, 'login_id') === kept.loginId) {
            const error = parameter(query, 'error')
            if (error) throw new LoginFailed(error)
            const handoff = parameter(query, 'handoff')
            if (handoff) body = { handoff, device, login_token: kept.login }
        }
        try {
            return await this.forwarded(body, signal, evidence)
        } catch (problem) {
            // Users from the provider's own portal are sent back to sign in once more, which needs no typing.
            if (!(problem instanceof Problem) || problem.code !== 'login_required' || !problem.json.login) throw problem
            if (restarts === 0 || !this.options.browser) throw problem
            return await this.follow(problem.json.login.authorization_url, device, restarts - 1, signal)
        }
    }

    private async forwarded(body: object, signal?: AbortSignal, evidence: Evidence = 'signIn'): Promise<SignIn> {
        const answer = await this.calls.call('POST', '/v1/sessions', { body, evidence, signal })
        if (answer.status === 200) return { kind: 'signedIn', session: await this.keepSteppedUp(answer) }
        if (answer.status === 202) return { kind: 'registration', registration: answer.json }
        return { kind: 'signedIn', session: await this.made(answer) }
    }

    /** Keeps the session from a 201 response, and forgets the login. */
    private async made(answer: Answer): Promise<Session> {
        const { session_token: token, pass, ...session } = answer.json
        if (this.options.transport === 'bearer' && !token) throw new Unreachable('a session without its secret')
        // A new cookie replaced the old one, and the broker ended the old session with it.
        const kept = await this.replace(kept => ({
            session: token, pass: passOf(pass), lastSession: newest(kept.lastSession, session), endings: kept.endings?.filter(one => one !== null) }))
        return newest(kept.lastSession, session)
    }

    /** Keeps the session from a step-up's 200 response, and forgets the login. The session's secret is unchanged. */
    private async keepSteppedUp(answer: Answer): Promise<Session> {
        const { pass, ...session } = answer.json
        const kept = await this.keeping.change(({ login, loginId, ...kept }) => ({
            ...kept, pass: passOf(pass) ?? kept.pass, lastSession: newest(kept.lastSession, session) }))
        return newest(kept.lastSession, session)
    }

    // ---- Moving in ---------------------------------------------------------------------------------------------------

    /**
     * Moves a user with a cookie of the old server to the broker. The browser sends the old cookie by itself.
     * Call it if `standing` is `signedOut`, in one page only. It returns after at most about ten minutes. Simultaneous calls share
     * one move.
     */
    async moveIn(provider: string, more: { device?: string; signal?: AbortSignal } = {}): Promise<MovedIn> {
        if (this.options.transport !== 'cookie') throw new TypeError('only a browser sends the old cookie by itself')
        if (!this.moving?.isOpen) this.moving = new SharedCall(signal => this.moved(provider, more.device, signal))
        return await this.moving.value(more.signal)
    }

    private async moved(provider: string, device: string | undefined, signal: AbortSignal): Promise<MovedIn> {
        const random = base64url(crypto.getRandomValues(new Uint8Array(32)))
        // The login token is stored before the first request, so that a page that is loaded again repeats the same request.
        const { moveIn } = await this.keeping.change(kept => ({ ...kept, moveIn: kept.moveIn ?? random }))
        const body = { provider, client: this.options.client, legacy: {}, login_token: moveIn, device }
        for (let paused = 0; ;) {
            let problem: Problem | null = null
            let pause = Math.random() * 60_000
            try {
                const result = await this.calls.attempt('POST', '/v1/sessions', { body, evidence: 'none', signal }, new Mending(), 30_000)
                if ('value' in result) return { kind: 'moved', session: await this.made(result.value) }
                if (result.failure instanceof Problem) problem = result.failure
                pause += result.retryAfter ?? 0
            } catch (refused) {
                if (!(refused instanceof Problem)) throw refused
                if (refused.status < 500) return await this.refusedMove(refused, signal)
                problem = refused
            }
            if (paused + pause > 600_000) return { kind: 'later', problem }
            await this.moveInPause(pause, signal)
            paused += pause
        }
    }

    private async refusedMove(problem: Problem, signal: AbortSignal): Promise<MovedIn> {
        // The user has to make room by ending another session. Then the same request is repeated.
        if (problem.code === 'too_many_sessions') return { kind: 'later', problem }
        // The answer with the cookie may have arrived in another page, or on another day.
        if (problem.code === 'code_already_used') {
            try {
                const session = await this.calls.remembered('GET', '/v1/session', { signal })
                await this.forgetMove()
                return { kind: 'moved', session }
            } catch (error) {
                if (error instanceof Unreachable || (error instanceof Problem && error.passes)) return { kind: 'later', problem: null }
                if (!(error instanceof Problem) || !error.endsSession) throw error
            }
        }
        await this.forgetMove()
        const signsIn = problem.code === 'login_required' || problem.code === 'code_already_used'
        return { kind: signsIn ? 'signIn' : 'notNow', problem }
    }

    private async forgetMove(): Promise<void> { await this.keeping.change(kept => ({ ...kept, moveIn: undefined })) }

    // ---- The session -------------------------------------------------------------------------------------------------

    /**
     * Returns the state of the sign-in within two seconds, for the start of the app. The method never throws, and a missing
     * network leaves users signed in.
     */
    async standing(): Promise<Standing> {
        let last: Session | null = null
        try {
            const kept = await this.keeping.kept()
            last = kept.lastSession ?? null
            const signedOut = this.options.transport === 'bearer' ? !kept.session : kept.endings?.includes(null)
            if (signedOut) {
                this.calls.endSessions()
                return { kind: 'signedOut', reason: null }
            }
            return { kind: 'signedIn', session: await this.calls.remembered('GET', '/v1/session', { deadline: 2_000 }) }
        } catch (error) {
            if (error instanceof Problem && error.endsSession) return { kind: 'signedOut', reason: error.reason }
            if (error instanceof KeyLost) return { kind: 'signedOut', reason: 'key_lost' }
            return { kind: 'unknown', last }
        }
    }

    /** Returns the session of the signed-in user. Simultaneous calls share one request. */
    async session(signal?: AbortSignal): Promise<Session> {
        if (!this.asking?.isOpen) this.asking = new SharedCall(signal => this.calls.remembered('GET', '/v1/session', { signal }))
        return await this.asking.value(signal)
    }

    /**
     * Asks the broker to refresh the provider's tokens now. Apps rarely need this, because the broker refreshes them in
     * time.
     */
    async refresh(signal?: AbortSignal): Promise<Session> { return await this.calls.remembered('POST', '/v1/session/refresh', { signal }) }

    /** Returns the provider's access token, for an SDK on the device (clients with `hand_out_access_token`). */
    async accessToken(signal?: AbortSignal): Promise<{ access_token: string; token_type: string; expires_at: string | null; scope: string[] }> {
        return (await this.calls.call('POST', '/v1/session/token', { evidence: 'proof', signal })).json
    }

    /**
     * Signs out on this device, with or without a network. Afterwards, the user is signed out here in any case. If the
     * broker is unreachable, a later call ends the session there, even after a restart.
     *
     * With `atProvider`, the result is the provider's logout page to open. The result is null if this page is missing or
     * the broker was unreachable.
     */
    async signOut(more: { atProvider?: boolean; signal?: AbortSignal } = {}): Promise<string | null> {
        const bearer = this.options.transport === 'bearer'
        const before = await this.keeping.kept()
        const kept = await this.replace(kept => {
            const ending = bearer ? kept.session : null
            const others = (kept.endings ?? []).filter(one => one !== ending)
            return { endings: (ending === undefined ? others : [...others, ending]).slice(-8) }
        })
        const ending = kept.endings?.[kept.endings.length - 1]
        if (ending === undefined) return null
        try {
            const answer = await this.calls.end(ending, more.atProvider ? before : undefined, more.signal)
            return more.atProvider ? answer.json.logout_url : null
        } catch (error) {
            // An ending works without a key, but the broker returns the logout page only with evidence.
            if (error instanceof KeyLost) this.calls.endSessions()
            if (error instanceof KeyLost || error instanceof Unreachable || (error instanceof Problem && error.passes)) return null
            throw error
        }
    }

    /**
     * Makes a session for a widget, a watch or an extension behind this session. One refresh serves both sessions, and the
     * new session ends with this one.
     *
     * `kind` is a word from the configuration, and `name` identifies the process. An earlier child with the same kind and
     * name ends. If this session is bound, set `jkt` to the thumbprint of the child's own key.
     */
    async child(kind: string, name: string, more: { device?: string; jkt?: string; signal?: AbortSignal } = {}): Promise<Child> {
        const { signal, ...rest } = more
        return (await this.calls.call('POST', '/v1/session/children', { body: { kind, name, ...rest }, evidence: 'proof', signal })).json
    }

    /**
     * Hands the session over to a page in the app's own web view, and returns the address to load. `put` sets the cookie in
     * the web view's store and resolves after it is stored. The address is useless without the cookie. If the page shows
     * `verifier_mismatch`, it was loaded too early: load the address once more.
     */
    async handOver(
        to: { origin: string; path?: string }, put: (cookie: HandOverCookie) => Promise<unknown>, signal?: AbortSignal
    ): Promise<string> {
        const secret = base64url(crypto.getRandomValues(new Uint8Array(32)))
        const body = { origin: to.origin, path: to.path ?? '/', challenge: base64url(sha256(bytes(secret))) }
        const { url } = (await this.calls.call('POST', '/v1/session/handovers', { body, evidence: 'proof', signal })).json
        const secure = to.origin.startsWith('https:')
        await put({
            url: to.origin, name: `${secure ? '__Host-' : ''}coatcheck-handover`, value: secret, path: '/', secure, httpOnly: true,
            sameSite: 'strict', maxAge: 60,
        })
        return url
    }

    /** Returns the user's sessions on all devices, newest first. */
    async sessions(signal?: AbortSignal): Promise<Session[]> {
        const found: Session[] = []
        let cursor: string | null = null
        do {
            const query: string | undefined = cursor ? `cursor=${encodeURIComponent(cursor)}` : undefined
            const page: any = (await this.calls.call('GET', '/v1/sessions', { query, signal })).json
            found.push(...page.items)
            cursor = page.next_cursor
        } while (cursor)
        return found
    }

    /** Ends one of the user's sessions. */
    async endSession(handle: string, signal?: AbortSignal): Promise<void> {
        await this.calls.call('DELETE', `/v1/sessions/${encodeURIComponent(handle)}`, { signal })
    }

    /** Ends the user's sessions on all other devices. */
    async endOthers(signal?: AbortSignal): Promise<void> { await this.calls.call('DELETE', '/v1/sessions', { query: 'except=current', signal }) }

    /** Replaces or removes the stored session. Later calls share requests for the new session only. */
    private async replace(work: (kept: Credentials) => Credentials): Promise<Credentials> {
        const kept = await this.keeping.replace(work)
        this.asking = null
        return kept
    }

    // ---- The user, the relay and the events ----------------------------------------------------------------------------

    /**
     * Asks the user to sign in again, and returns the session, which keeps its secret and its key. The demand is one of
     * the `acrValues`, or a sign-in within `maxAge` seconds, or both. Simultaneous requests share one step-up. If a request
     * needs more than the running step-up, it gets the next one.
     *
     * Throws a `Cancelled` if the user closes the page. Throws a `Problem` with `step_up_failed` (`required` and `got`) if
     * the sign-in is insufficient, or with `subject_mismatch` if another user signed in. After these errors, the session is
     * unchanged.
     */
    async stepUp(demand: StepUp, signal?: AbortSignal): Promise<Session> { return await this.user.stepUp(demand, signal) }

    /** Starts a step-up and returns the page to open. Continue with `finish`. */
    async startStepUp(demand: StepUp, signal?: AbortSignal): Promise<string> { return await this.user.startStepUp(demand, signal) }

    /**
     * Registers the presence key for the session. Makes a key if necessary, and asks the user once. Call it soon after a
     * sign-in or a `stepUp`. A session accepts one presence key in its life. If the key is lost, a `PresenceKeyLost` is
     * thrown, and the next session can register another.
     */
    async registerPresenceKey(signal?: AbortSignal): Promise<Session> { return await this.user.registerPresenceKey(signal) }

    /**
     * Returns a bound session's pass for the app's own requests, which send it as `Coatcheck-Pass`. Renews the pass if it
     * is due. Returns null if the session needs no pass.
     */
    async pass(signal?: AbortSignal): Promise<string | null> { return await this.calls.proofs.pass(signal) }

    /**
     * Calls an upstream API with the session's access token, which the app never sees. Every response of the upstream is
     * returned. This includes its 401, which never ends the session. A refusal by the broker is thrown.
     *
     * A call that may have reached the upstream is repeated only if its method is idempotent and its body is a text or
     * bytes.
     *
     * If the broker demands the user's presence (`presence_required`), the presence key asks the user, for one call after
     * another. With `presence`, it asks before the first request. This saves a request if the demand is certain.
     */
    async relay(
        upstream: string, path: string, init: RequestInit & { query?: string; presence?: boolean; signal?: AbortSignal } = {}
    ): Promise<Response> {
        return await relayed(this.calls, this.user, upstream, path, init)
    }

    /**
     * Returns the events of the session until it ends or the signal is aborted. Reconnects by itself. Listen in the
     * foreground only, because the first event after a reconnect contains the current state. This method needs a
     * `fetch` whose responses are readable streams (browsers, Node, `expo/fetch`). React Native's own `fetch` is unsuitable.
     */
    events(signal?: AbortSignal): AsyncGenerator<SessionEvent, void, void> { return listened(this.calls, signal) }
}

/**
 * Returns a parameter of a query, or null. React Native's `URLSearchParams` is unusable: older versions throw at each
 * `get`, newer ones at an invalid escape in any parameter.
 */
export function parameter(query: string, name: string): string | null {
    for (const pair of query.split('&')) {
        const at = pair.indexOf('=')
        if (unescaped(at < 0 ? pair : pair.slice(0, at)) === name) return at < 0 ? '' : unescaped(pair.slice(at + 1))
    }
    return null
}

export function unescaped(text: string): string {
    const spaced = text.replace(/\+/g, ' ')
    try {
        return decodeURIComponent(spaced)
    } catch {
        return spaced
    }
}
