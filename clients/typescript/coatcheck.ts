// A client of Coatcheck in one file to copy, without dependencies: for React Native with a bearer client, for the web with a
// cookie client. It is handed a storage, a browser and, where the global one will not do, a fetch.
//
//     const coatcheck = new Coatcheck({ broker: 'https://auth.example.com', client: 'android', transport: 'bearer', storage, browser })
//     const signIn = await coatcheck.signIn('cloudentity')
//
// Make one and share it. What can be sent again is sent again, as docs/apps/native-apps.md says; what is thrown is a Problem, an
// Unreachable, a LoginFailed, a KeyLost, a PresenceKeyLost, a Cancelled, or what an AbortSignal was aborted with.

// The parts of the platform that are used here. If the platform has types for them, these are its own. The file compiles with the
// DOM's library, with React Native's types, and alone.
type Platform<Name extends string, Otherwise> = typeof globalThis extends { [name in Name]: { prototype: infer Part } } ? Part : Otherwise
type AbortSignal = Platform<'AbortSignal', {
    readonly aborted: boolean
    addEventListener(type: 'abort', listener: () => void): void
    removeEventListener(type: 'abort', listener: () => void): void
}>
type Headers = Platform<'Headers', { get(name: string): string | null; set(name: string, value: string): void }>
type Response = Platform<'Response', {
    readonly status: number
    readonly ok: boolean
    readonly type: string
    readonly headers: Headers
    text(): Promise<string>
    json(): Promise<any>
    arrayBuffer(): Promise<ArrayBuffer>
}>
type Fetch = typeof globalThis extends { fetch: infer Own } ? Own : (
    input: string, init?: { method?: string; headers?: any; body?: any; signal?: AbortSignal | null; redirect?: string; credentials?: string }
) => Promise<Response>
type RequestInit = Fetch extends (input: any, init?: infer Init) => unknown ? NonNullable<Init> : never
type CryptoKey = Platform<'CryptoKey', object>
interface CryptoKeyPair { publicKey: CryptoKey; privateKey: CryptoKey }
interface Stream { getReader(): { read(): Promise<{ done: boolean; value?: Uint8Array }>; cancel(): Promise<void> } }
interface Asked<Value> { readonly result: Value; readonly error: unknown; onsuccess: unknown; onerror: unknown }
interface KeyStore { get(name: string): Asked<any>; put(pair: CryptoKeyPair, name: string): Asked<unknown> }
interface KeyDatabase {
    createObjectStore(name: string): unknown
    transaction(name: string, mode: 'readonly' | 'readwrite'): { objectStore(name: string): KeyStore }
    close(): void
}
declare const fetch: Fetch
declare const Headers: { new (init?: any): Headers }
declare const AbortController: { new (): { readonly signal: AbortSignal; abort(): void } }
declare const TextDecoder: { new (): { decode(bytes?: Uint8Array, options?: { stream?: boolean }): string } }
declare const ReadableStream: any
declare const indexedDB: { open(name: string, version: number): Asked<KeyDatabase> & { onupgradeneeded: unknown } }
declare const crypto: {
    getRandomValues(bytes: Uint8Array): Uint8Array
    subtle: {
        generateKey(algorithm: object, extractable: boolean, uses: string[]): Promise<CryptoKeyPair>
        exportKey(format: 'jwk', key: CryptoKey): Promise<{ x?: string; y?: string }>
        sign(algorithm: object, key: CryptoKey, bytes: Uint8Array): Promise<ArrayBuffer>
    }
}
declare function setTimeout(work: () => void, millis: number): unknown
declare function clearTimeout(timer: unknown): void

/** Who is signed in, as the broker tells it; never a token. A later broker may have more members. */
export interface Session {
    handle: string
    /** Counts step-ups and presence keys: the client never goes back to a lower one. An older broker has none. */
    version?: number
    provider: string
    client: string
    subject: string
    /** What the provider confirmed; `unverified` holds what came only in a callback parameter. */
    identity: { [claim: string]: unknown }
    /** Empty when unknown. */
    scope: string[]
    created_at: string
    last_used_at: string
    idle_expires_at: string
    expires_at: string
    tokens: { expires_at: string | null; refreshable: boolean }
    /** The key that a bound session belongs to, by its thumbprint (RFC 7638). `evidence` is `pass` or `proof`. */
    binding?: { jkt: string; evidence: string } | null
    /** The class and the methods of the last sign-in, and its time at the provider, where that said them. */
    acr?: string | null
    amr?: string[]
    authenticated_at?: string | null
    /** The key that tells that the user is there, by its thumbprint. */
    presence?: { jkt: string; registered_at: string } | null
    /** Of a child session its kind, and the handle of its parent. */
    kind?: string | null
    parent?: string | null
    /** In a list of sessions. */
    current?: boolean
    device?: string | null
}

/** A session for another process of the app, with its token: that process sends it as `Authorization: Bearer`. */
export interface Child extends Session { session_token: string }

/** The cookie that a web view's store has to have before it loads the address of a hand-over. */
export interface HandOverCookie { url: string; name: string; value: string; path: '/'; secure: boolean; httpOnly: true; sameSite: 'strict'; maxAge: 60 }

/** A Zephr partial registration: show a form made of `fields`, then call `register`. */
export interface Registration {
    provider: string
    state_key: string
    identifier: string | null
    expires_at: string
    fields: { name: string; type: string; required: boolean }[]
}

/** A demand on how, and how lately, the user signed in: one of these classes (`acr`), the most seconds since then. */
export interface StepUp { acrValues?: string[]; maxAge?: number }

/** How a sign-in ended. */
export type SignIn = { kind: 'signedIn'; session: Session } | { kind: 'registration'; registration: Registration }

/** What an app knows at its start. `unknown`: the broker cannot be asked now, and nobody is signed out; show who was there last. */
export type Standing =
    | { kind: 'signedIn'; session: Session }
    | { kind: 'signedOut'; reason: string | null }
    | { kind: 'unknown'; last: Session | null }

/** What happens to a session; `ended` is the last one. */
export type SessionEvent = { kind: 'session'; session: Session } | { kind: 'tokensRefreshed' } | { kind: 'ended'; reason: string | null }

/** What a device keeps; the browser keeps the cookies of a cookie client. */
export interface Credentials {
    /** The session token of a bearer client. */
    session?: string
    /** The login token of a bearer client: it has to survive until the session is there, over a restart of the app, too. */
    login?: string
    loginId?: string
    lastSession?: Session
    /** A bound session's evidence for some minutes: when it came by this device's clock, in milliseconds, and its life in seconds. */
    pass?: { value: string; received: number; lifetime: number }
    /** The sessions that the broker has still to be told to end, the newest eight; null stands for the cookie's. */
    endings?: (string | null)[]
}

/** Where a device keeps its credentials: the platform's secure storage. `read` throws where it cannot be read now. */
export interface CredentialStorage {
    read(): Promise<Credentials | null>
    write(credentials: Credentials | null): Promise<void>
}

/** The public half of a `ProofKey`: the coordinates of its point, 32 bytes each as base64url, as in its JSON Web Key. */
export interface ProofPublicKey { x: string; y: string }

/**
 * A P-256 key of this device, to which its sessions belong (docs/apps/bound-sessions.md): who copies the token opens nothing without
 * it. In a browser and Node it is a `WebCryptoKey`; React Native needs a module that reaches Secure Enclave and Keystore. A key
 * that asks for the user each time is another of the same kind.
 */
export interface ProofKey {
    /** The public key; null where there is none, yet or any more. Throws where the device cannot say so now: that is not a lost key. */
    publicKey(): Promise<ProofPublicKey | null>
    /** Makes a key, in place of one that no longer signs; called by sign-ins and `registerPresenceKey` alone. */
    make(): Promise<ProofPublicKey>
    /**
     * The ES256 signature: r and s, 32 bytes each. Throws a `KeyLost` where the key will never sign again, a `Cancelled` where the
     * user was asked and would not.
     */
    sign(bytes: Uint8Array): Promise<Uint8Array>
}

/**
 * Opens a sign-in page and returns the whole URL with which it came back; closes it when the signal is aborted. Throws a `Cancelled`
 * when the user closes it.
 */
export interface SignInBrowser {
    open(page: string, signal?: AbortSignal): Promise<string>
}

/** A login that the app started itself, or a native SDK's. Keep it (it is plain JSON) until the session is there. */
export interface AppLogin {
    provider: string
    client: string
    state?: string
    codeVerifier?: string
    /** The nonce that the app made, raw: an SDK may have been given its `hashedNonce`. */
    nonce?: string
    /** The scopes that the app asked for, separated by spaces, where they are fewer than the client may ask for. */
    scope?: string
    /** The address to which the provider returned, where the client has several; for `forwardCode`. */
    redirectURI?: string
    /** 32 random bytes as base64url, made for this attempt: who brings it again gets the same session. */
    loginToken: string
}

/** The SHA-256 of a nonce in hexadecimal digits, as the SDKs of Apple and Google take it. */
export function hashedNonce(nonce: string): string { return Array.from(sha256(bytes(nonce)), byte => byte.toString(16).padStart(2, '0')).join('') }

export interface Options {
    broker: string
    /** May be left out where the provider has one client. */
    client?: string
    /** As the client is configured at the broker. */
    transport: 'cookie' | 'bearer'
    storage: CredentialStorage
    /** For bearer clients whose sessions the broker binds: no script sees the cookie of the others, so none can prove it. */
    key?: ProofKey
    /** A key that asks for the user each time; see `registerPresenceKey`. */
    presenceKey?: ProofKey
    /**
     * Whether a call that needs a stronger or more recent sign-in may open the browser for it; without it such a call throws a
     * `StepUpRequired`.
     */
    onStepUp?: (demand: StepUp) => boolean | Promise<boolean>
    browser?: SignInBrowser
    fetch?: Fetch
    /** How long a call may take in all, its repetitions included; 60 seconds. */
    deadline?: number
}

/** A refusal of the broker's (RFC 9457). Decide on `code`; put `requestId` into bug reports. */
export class Problem extends Error {
    readonly status: number
    readonly code: string
    readonly requestId: string
    /** Why a session ended, or a proof is not accepted. */
    readonly reason: string | null
    /** The provider's own word, where a standard defines it. */
    readonly providerError: string | null
    /** Of `step_up_failed`: what was demanded, and what the sign-in showed, where that is known. */
    readonly required: StepUp | null
    readonly got: { acr: string | null; authenticated_at: string | null } | null
    /** Of a child session's `step_up_required` and `presence_required`: its parent steps up and makes a new one, or calls itself. */
    readonly parent: boolean
    /** Everything as it came. */
    readonly json: { [member: string]: any }

    constructor(json: { [member: string]: any }) {
        super(`${json.title} (${json.code}, ${json.request_id})`)
        this.name = 'Problem'
        this.json = json
        this.status = json.status
        this.code = json.code
        this.requestId = json.request_id
        this.reason = json.reason ?? null
        this.providerError = json.provider_error ?? null
        this.required = json.required ? demandOf(json.required) : null
        this.got = json.got ?? null
        this.parent = json.parent === true
    }

    /** Whether there is no session any more. */
    get endsSession(): boolean { return this.status === 401 && (this.code === 'session_ended' || this.code === 'session_required') }

    /** Whether waiting and sending the same request again is the answer. */
    get passes(): boolean { return (this.status === 503 && this.json.retry !== 'new_login') || this.status === 429 || this.status === 408 }
}

/** A call needs a stronger or more recent sign-in, and no browser was opened for it: see `stepUp`. The session is as it was. */
export class StepUpRequired extends Problem {
    /** What a step-up has to meet. */
    readonly stepUp: StepUp

    constructor(json: { [member: string]: any }) {
        super(json)
        this.name = 'StepUpRequired'
        this.stepUp = demandOf(json.step_up ?? {})
    }
}

/** The user closed the sign-in page, or would not show a face, a finger or the device's code. */
export class Cancelled extends Error {
    constructor() {
        super('the user cancelled it')
        this.name = 'Cancelled'
    }
}

/** The session's presence key is not on this device any more: sign in again, and register another. */
export class PresenceKeyLost extends Error {
    constructor() {
        super('this device has to be signed in again: the key that asks for the user is gone')
        this.name = 'PresenceKeyLost'
    }
}

/** There is no network, nobody answers, or the answer is not the broker's. Nothing is lost. */
export class Unreachable extends Error {
    constructor(why: string) {
        super(why)
        this.name = 'Unreachable'
    }
}

/** A hosted callback came back with an error. */
export class LoginFailed extends Error {
    constructor(readonly code: string) {
        super(code)
        this.name = 'LoginFailed'
    }
}

/** The key that the session belongs to is not on this device any more (a restored back-up, a new phone): sign in again. */
export class KeyLost extends Error {
    constructor() {
        super('this device has to be signed in again: its key is gone')
        this.name = 'KeyLost'
    }
}

/** Keeps the credentials as long as the page or the process lives. */
export class MemoryStorage implements CredentialStorage {
    private kept: Credentials | null = null
    async read(): Promise<Credentials | null> { return this.kept && { ...this.kept } }
    async write(credentials: Credentials | null): Promise<void> { this.kept = credentials && { ...credentials } }
}

/** Keeps a pair of keys, which cannot be read, only used. */
export interface KeyPairStorage {
    read(): Promise<CryptoKeyPair | null>
    write(pair: CryptoKeyPair): Promise<void>
}

/** A key by WebCrypto that no script can read; in a browser it lies in IndexedDB. */
export class WebCryptoKey implements ProofKey {
    constructor(private readonly storage: KeyPairStorage = indexedKeys('coatcheck')) {}

    async publicKey(): Promise<ProofPublicKey | null> {
        const pair = await this.storage.read()
        return pair && (await exported(pair))
    }

    async make(): Promise<ProofPublicKey> {
        const pair = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign', 'verify'])
        await this.storage.write(pair)
        return await exported(pair)
    }

    async sign(bytes: Uint8Array): Promise<Uint8Array> {
        const pair = await this.storage.read()
        if (!pair) throw new KeyLost()
        return new Uint8Array(await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, pair.privateKey, bytes))
    }
}

async function exported(pair: CryptoKeyPair): Promise<ProofPublicKey> {
    const jwk = await crypto.subtle.exportKey('jwk', pair.publicKey)
    return { x: jwk.x ?? '', y: jwk.y ?? '' }
}

/** Keeps a pair of keys in a browser's IndexedDB, under a name. */
export function indexedKeys(name: string): KeyPairStorage {
    function done<Value>(request: Asked<Value>): Promise<Value> {
        return new Promise((resolve, reject) => {
            request.onsuccess = () => resolve(request.result)
            request.onerror = () => reject(request.error)
        })
    }
    async function keys<Value>(mode: 'readonly' | 'readwrite', work: (keys: KeyStore) => Asked<Value>): Promise<Value> {
        const opening = indexedDB.open(name, 1)
        opening.onupgradeneeded = () => opening.result.createObjectStore('keys')
        const database = await done(opening)
        try {
            return await done(work(database.transaction('keys', mode).objectStore('keys')))
        } finally {
            database.close()
        }
    }
    return {
        read: async () => (await keys('readonly', keys => keys.get('proof'))) ?? null,
        write: async pair => { await keys('readwrite', keys => keys.put(pair, 'proof')) },
    }
}

/**
 * The evidence that a call shows of a bound session's key: a proof that makes the new session belong to it; a pass, or a proof
 * where the client's sessions want one each; a proof, where the call gives what outlives a pass.
 */
type Evidence = 'none' | 'signIn' | 'session' | 'proof'

/** The things that a call lacks, put right where the broker refuses it: in each way once, so that no refusal makes a loop. */
class Mending {
    /** Whether the broker said that this session is a bound one, whatever is known of it here. */
    bound = false
    /** Whether the broker gave the call a nonce. */
    nonce = false
    private fresh = false
    /** Whether the user has stepped up for the call. */
    steppedUp = false
    /** The proof that the user is there, good until it was refused. */
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
        // The network sent it twice: the other one may have done what it asks for.
        if (problem.code !== 'proof_invalid' || problem.reason !== 'replayed' || !repeatable) return false
        this.fresh = true
        return !before.fresh
    }

    /** Whether the user is asked for a call, for the first time or once more. */
    asks(problem: Problem, repeatable: boolean): boolean {
        // A child's parent makes the call itself. What the network sent twice may have done what it asks for.
        const asks = this.presence === null
            ? problem.code === 'presence_required' && !problem.parent && this.prompts === 0
            : problem.code === 'presence_invalid' && (problem.reason === 'nonce' || (problem.reason === 'replayed' && repeatable)) && this.prompts <= 1
        if (asks) this.prompts += this.presence === null ? 1 : 2
        return asks
    }
}

/** A step-up, and the demands that it has to meet. Its call gives null where the app would not have a browser opened for calls. */
class SteppingUp {
    /** Whether demands are still joined to it. */
    gathering = true
    call!: SharedCall<Session | null>
    /** `wanted`: whether the app itself asked for it. */
    constructor(public demand: StepUp, public wanted: boolean) {}
}

/**
 * The newer of two states of a session. Replicas may answer with what they read some seconds ago, so a lower version never takes the
 * place of a higher one. The same version is taken as it comes, and so is the answer of an older broker, which has none.
 */
function newest(known: Session | undefined, answer: Session): Session {
    return known && known.handle === answer.handle && (known.version ?? 0) > (answer.version ?? Infinity) ? known : answer
}

function demandOf(json: { acr_values?: string; max_age?: number }): StepUp {
    const demand: StepUp = {}
    if (json.acr_values !== undefined) demand.acrValues = json.acr_values.split(' ').filter(word => word !== '')
    if (json.max_age !== undefined) demand.maxAge = json.max_age
    return demand
}

function written(demand: StepUp | undefined): object | undefined {
    return demand && { acr_values: demand.acrValues?.join(' '), max_age: demand.maxAge }
}

/** Whether a sign-in that meets a demand meets the other one, too. */
function covers(one: StepUp, other: StepUp): boolean {
    const strong = !other.acrValues || (one.acrValues?.every(word => other.acrValues?.includes(word)) ?? false)
    return strong && (other.maxAge === undefined || (one.maxAge ?? Infinity) <= other.maxAge)
}

/** The demand that meets both; null where no class would. */
function joined(one: StepUp, other: StepUp): StepUp | null {
    const acrValues = one.acrValues && other.acrValues ? one.acrValues.filter(word => other.acrValues?.includes(word)) : one.acrValues ?? other.acrValues
    if (acrValues?.length === 0) return null
    const maxAge = Math.min(one.maxAge ?? Infinity, other.maxAge ?? Infinity)
    return { ...(acrValues ? { acrValues } : {}), ...(maxAge < Infinity ? { maxAge } : {}) }
}

interface Call {
    query?: string
    body?: unknown
    /** Whose session it is for: the one that is kept, none, or another. */
    as?: string | null
    /** `session`, where nothing is said. */
    evidence?: Evidence
    /** What was kept before the session was signed out. */
    before?: Credentials
    /** Whether it asks for a nonce, by a proof without one. */
    asksForNonce?: boolean
    /** Whether it registers the presence key. */
    registers?: boolean
    deadline?: number
    signal?: AbortSignal
}

/** A try's value, or why another may help: at once where the user did what was lacking. */
type Attempt<Value> = { value: Value } | { failure: Error; retryAfter?: number | null; atOnce?: true }

type Fields = { [name: string]: string }

interface Answer { status: number; headers: Headers; json: any }

/** A broker, as one app on one device sees it. */
export class Coatcheck {
    private readonly broker: string
    private readonly deadline: number
    private readonly send: (input: string, init?: object) => Promise<Response>
    private turn: Promise<unknown> = Promise.resolve()
    private asking: SharedCall<Session> | null = null
    // Counts the sessions that were kept here, because a page cannot compare session cookies.
    private keptSessions = 0
    private signingIn = new Map<string, SharedCall<SignIn>>()
    private ending = false
    private nonce: string | null = null
    private nonceReceived = 0
    private readonly prompts = new Turn()
    private readonly pages = new Turn()
    private steppingUp: SteppingUp[] = []
    /** The number of step-ups so far, and what the last one met. */
    private stepUps = 0
    private met: StepUp | null = null
    /** The time in which the demands of calls that are refused together become one step-up, in milliseconds. */
    private gathering = 100
    private making: Promise<ProofPublicKey> | null = null
    private renewing: { session: string; call: SharedCall<string | null> } | null = null
    /** Whether the client's sessions want a proof with each request. */
    private provesEach = false

    constructor(private readonly options: Options) {
        if (options.key && options.transport !== 'bearer') throw new TypeError('a cookie that no script sees cannot be proved')
        this.broker = options.broker.replace(/\/$/, '')
        this.deadline = options.deadline ?? 60_000
        const own = options.fetch
        this.send = async (input, init) => {
            const answer: Response = await (own ? own(input, init as RequestInit) : fetch(input, init as RequestInit))
            const nonce = answer.headers.get('DPoP-Nonce')
            if (nonce) [this.nonce, this.nonceReceived] = [nonce, Date.now()]
            return answer
        }
    }

    // ---- Signing in --------------------------------------------------------------------------------------------------

    /**
     * Signs the user in: starts a login, opens its page, forwards the callback. A second call for the same provider joins. `stepUp`
     * is what the sign-in has to meet: `maxAge` where the user, who may be signed in at the provider already, has to sign in now.
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

    /** Starts a login and returns the page to open, never in a web view; then `finish`. */
    async start(
        provider: string, more: { socialProvider?: string; parameters?: { [name: string]: string }; stepUp?: StepUp; signal?: AbortSignal } = {}
    ): Promise<string> {
        const body = {
            provider, client: this.options.client, social_provider: more.socialProvider, parameters: more.parameters, step_up: written(more.stepUp),
        }
        const answer = await this.call('POST', '/v1/logins', { body, as: null, evidence: 'signIn', signal: more.signal })
        return await this.keepLogin(answer.json)
    }

    /** Finishes a sign-in with the whole URL that the browser came back with, unchanged: after a restart of the app, too. */
    async finish(callback: string, more: { device?: string; signal?: AbortSignal } = {}): Promise<SignIn> {
        return await this.finishOrFollow(callback, more.device, 1, more.signal)
    }

    /**
     * Forwards the callback of a login that the app started with a library of its own (flow B): the whole URL, unchanged. A library
     * that keeps the URL to itself gives its code: see `forwardCode`.
     */
    async forward(callback: string, login: AppLogin, more: { device?: string; signal?: AbortSignal } = {}): Promise<SignIn> {
        const body = { callback_url: callback, state: login.state, code_verifier: login.codeVerifier, scope: login.scope }
        return await this.forwarded({ ...this.body(login, more.device), ...body }, more.signal)
    }

    /**
     * Forwards a code without its callback: that of a library which has checked the callback and keeps it to itself (AppAuth), with
     * the login's `codeVerifier`; or that of a provider's own SDK (clients with `native_code`), without one.
     */
    async forwardCode(code: string, login: AppLogin, more: { device?: string; signal?: AbortSignal } = {}): Promise<SignIn> {
        const body = { code, code_verifier: login.codeVerifier, redirect_uri: login.redirectURI, scope: login.scope }
        return await this.forwarded({ ...this.body(login, more.device), ...body }, more.signal)
    }

    /** Forwards the ID token that a provider's own SDK gave the app (clients with `native_code`), with the login's `nonce`. */
    async forwardIDToken(idToken: string, login: AppLogin, more: { device?: string; signal?: AbortSignal } = {}): Promise<SignIn> {
        return await this.forwarded({ ...this.body(login, more.device), id_token: idToken }, more.signal)
    }

    /** Finishes a Zephr registration; `registration_rejected` can be corrected once, with the same registration. */
    async register(
        registration: Registration, attributes: { [name: string]: string | number | boolean }, signal?: AbortSignal
    ): Promise<Session> {
        const body = {
            provider: registration.provider, client: this.options.client, state_key: registration.state_key, attributes,
            login_token: (await this.kept()).login,
        }
        return await this.made(await this.call('POST', '/v1/registrations', { body, evidence: 'signIn', signal }))
    }

    /** The providers that the broker offers: what an app needs to draw its buttons. */
    async providers(signal?: AbortSignal): Promise<{ name: string; kind: string; display_name: string; clients: { name: string }[] }[]> {
        return (await this.call('GET', '/v1/providers', { as: null, evidence: 'none', signal })).json.items
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
        const kept = await this.kept()
        let body: object = { callback_url: callback, device, login_token: kept.login }
        // A hosted callback names our login; no provider does.
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
            // A user who comes from the provider's own portal is sent back to sign in once more, which takes no typing.
            if (!(problem instanceof Problem) || problem.code !== 'login_required' || !problem.json.login) throw problem
            if (restarts === 0 || !this.options.browser) throw problem
            return await this.follow(problem.json.login.authorization_url, device, restarts - 1, signal)
        }
    }

    private async forwarded(body: object, signal?: AbortSignal, evidence: Evidence = 'signIn'): Promise<SignIn> {
        const answer = await this.call('POST', '/v1/sessions', { body, evidence, signal })
        if (answer.status === 200) return { kind: 'signedIn', session: await this.keepSteppedUp(answer) }
        if (answer.status === 202) return { kind: 'registration', registration: answer.json }
        return { kind: 'signedIn', session: await this.made(answer) }
    }

    /** Keeps what a 201 gives, and forgets the login. */
    private async made(answer: Answer): Promise<Session> {
        const { session_token: token, pass, ...session } = answer.json
        if (this.options.transport === 'bearer' && !token) throw new Unreachable('a session without its secret')
        // A new cookie took the old one's place, and the broker ended that session with it.
        const kept = await this.replace(kept => ({
            session: token, pass: passOf(pass), lastSession: newest(kept.lastSession, session), endings: kept.endings?.filter(one => one !== null) }))
        return newest(kept.lastSession, session)
    }

    /** Keeps what the 200 of a step-up gives, and forgets the login: the session's secret stays. */
    private async keepSteppedUp(answer: Answer): Promise<Session> {
        const { pass, ...session } = answer.json
        const kept = await this.change(({ login, loginId, ...kept }) => ({
            ...kept, pass: passOf(pass) ?? kept.pass, lastSession: newest(kept.lastSession, session) }))
        return newest(kept.lastSession, session)
    }

    private async keepLogin(login: { login_id: string; authorization_url: string; login_token?: string }): Promise<string> {
        await this.change(kept => ({ ...kept, login: login.login_token ?? kept.login, loginId: login.login_id }))
        return login.authorization_url
    }

    // ---- The session -------------------------------------------------------------------------------------------------

    /** How things stand, for the start of the app, within two seconds: never throws, signs nobody out for want of a network. */
    async standing(): Promise<Standing> {
        let last: Session | null = null
        try {
            const kept = await this.kept()
            last = kept.lastSession ?? null
            const signedOut = this.options.transport === 'bearer' ? !kept.session : kept.endings?.includes(null)
            if (signedOut) {
                this.endSessions()
                return { kind: 'signedOut', reason: null }
            }
            return { kind: 'signedIn', session: await this.remembered('GET', '/v1/session', { deadline: 2_000 }) }
        } catch (error) {
            if (error instanceof Problem && error.endsSession) return { kind: 'signedOut', reason: error.reason }
            if (error instanceof KeyLost) return { kind: 'signedOut', reason: 'key_lost' }
            return { kind: 'unknown', last }
        }
    }

    /** Who is signed in; calls at the same time share one request. */
    async session(signal?: AbortSignal): Promise<Session> {
        if (!this.asking?.isOpen) this.asking = new SharedCall(signal => this.remembered('GET', '/v1/session', { signal }))
        return await this.asking.value(signal)
    }

    /** Has the broker refresh the provider's tokens now. An app need not: the broker does it when it has to. */
    async refresh(signal?: AbortSignal): Promise<Session> { return await this.remembered('POST', '/v1/session/refresh', { signal }) }

    /** The provider's access token, for an SDK on the device (clients with `hand_out_access_token`). */
    async accessToken(signal?: AbortSignal): Promise<{ access_token: string; token_type: string; expires_at: string | null; scope: string[] }> {
        return (await this.call('POST', '/v1/session/token', { evidence: 'proof', signal })).json
    }

    /**
     * Signs out here, with or without a network: afterwards nobody is signed in on this device. Where the broker cannot be told
     * now, it is told with the next call that goes through, after a restart, too. With `atProvider` returns the provider's
     * log-out page to open, where it has one and the broker was reached.
     */
    async signOut(more: { atProvider?: boolean; signal?: AbortSignal } = {}): Promise<string | null> {
        const bearer = this.options.transport === 'bearer'
        const before = await this.kept()
        const kept = await this.replace(kept => {
            const ending = bearer ? kept.session : null
            const others = (kept.endings ?? []).filter(one => one !== ending)
            return { endings: (ending === undefined ? others : [...others, ending]).slice(-8) }
        })
        const ending = kept.endings?.[kept.endings.length - 1]
        if (ending === undefined) return null
        try {
            const answer = await this.end(ending, more.atProvider ? before : undefined, more.signal)
            return more.atProvider ? answer.json.logout_url : null
        } catch (error) {
            // An ending needs no key; the page is told to none without one.
            if (error instanceof KeyLost) this.endSessions()
            if (error instanceof KeyLost || error instanceof Unreachable || (error instanceof Problem && error.passes)) return null
            throw error
        }
    }

    /**
     * Makes a session for a widget, a watch or an extension behind this one: one refresh serves both, and it ends with this
     * one. `kind` is the configuration's word, `name` says which; the one that had this place before has ended. Of a bound
     * session `jkt`, the thumbprint of the child's own key, is needed.
     */
    async child(kind: string, name: string, more: { device?: string; jkt?: string; signal?: AbortSignal } = {}): Promise<Child> {
        const { signal, ...rest } = more
        return (await this.call('POST', '/v1/session/children', { body: { kind, name, ...rest }, evidence: 'proof', signal })).json
    }

    /**
     * Hands the session over to a page in a web view of the app's own, and returns the address to load there. `put` sets the
     * cookie in the web view's store and resolves when it is in: the address is worth nothing without it. A page that shows
     * `verifier_mismatch` was loaded before that: load the address once more.
     */
    async handOver(
        to: { origin: string; path?: string }, put: (cookie: HandOverCookie) => Promise<unknown>, signal?: AbortSignal
    ): Promise<string> {
        const secret = base64url(crypto.getRandomValues(new Uint8Array(32)))
        const body = { origin: to.origin, path: to.path ?? '/', challenge: base64url(sha256(bytes(secret))) }
        const { url } = (await this.call('POST', '/v1/session/handovers', { body, evidence: 'proof', signal })).json
        const secure = to.origin.startsWith('https:')
        await put({
            url: to.origin, name: `${secure ? '__Host-' : ''}coatcheck-handover`, value: secret, path: '/', secure, httpOnly: true,
            sameSite: 'strict', maxAge: 60,
        })
        return url
    }

    /** The user's sessions on all devices, newest first. */
    async sessions(signal?: AbortSignal): Promise<Session[]> {
        const found: Session[] = []
        let cursor: string | null = null
        do {
            const query: string | undefined = cursor ? `cursor=${encodeURIComponent(cursor)}` : undefined
            const page: any = (await this.call('GET', '/v1/sessions', { query, signal })).json
            found.push(...page.items)
            cursor = page.next_cursor
        } while (cursor)
        return found
    }

    /** Ends one of the user's sessions. */
    async endSession(handle: string, signal?: AbortSignal): Promise<void> {
        await this.call('DELETE', `/v1/sessions/${encodeURIComponent(handle)}`, { signal })
    }

    /** Ends the user's sessions on all other devices. */
    async endOthers(signal?: AbortSignal): Promise<void> { await this.call('DELETE', '/v1/sessions', { query: 'except=current', signal }) }

    /** Ends a session that was signed out here, and forgets it; with what was kept before it asks for the provider's page. */
    private async end(ending: string | null, before?: Credentials, signal?: AbortSignal): Promise<Answer> {
        // An ending needs no evidence; with it the broker tells the page, too.
        const more: Partial<Call> = before ? { query: 'logout_url=true', evidence: 'session', before } : { evidence: 'none' }
        const answer = await this.call('DELETE', '/v1/session', { ...more, as: ending ?? undefined, signal }, true)
        await this.change(kept => ({ ...kept, endings: kept.endings?.filter(one => one !== ending) }))
        return answer
    }

    /** Tells the broker, in the background, of the sessions that were signed out while it could not be told. */
    private async endSessions(): Promise<void> {
        if (this.ending) return
        this.ending = true
        try {
            for (const ending of (await this.kept()).endings ?? []) await this.end(ending)
        } catch {
            // With the next call that goes through.
        } finally {
            this.ending = false
        }
    }

    /** Asks for the session and keeps the answer, unless another took its place meanwhile. */
    private async remembered(method: string, path: string, call: Call): Promise<Session> {
        const sent = (await this.kept()).session
        const sessions = this.keptSessions
        return await this.remember((await this.call(method, path, call)).json, sent, sessions)
    }

    /** Keeps an answer of the session that a request was sent for, and returns the newest state of it that is known. */
    private async remember(session: Session, sent: string | undefined, sessions: number): Promise<Session> {
        const kept = await this.change(kept =>
            kept.session === sent && this.keptSessions === sessions && !kept.endings?.includes(null) ? { ...kept, lastSession: newest(kept.lastSession, session) } : kept)
        return newest(kept.lastSession, session)
    }

    // ---- Step-ups ----------------------------------------------------------------------------------------------------

    /**
     * Has the user sign in again for the session, in one of these ways or so recently (in seconds), and returns the session, which
     * goes on with its secret and its key. One step-up does for all who ask for it at the same time; who needs more than the one
     * under way gets the next. Throws a `Cancelled` when the user closes the page, and a `Problem` of `step_up_failed` (`required`
     * and `got`) where the sign-in is not enough, or `subject_mismatch` where somebody else signed in: the session is as it was.
     */
    async stepUp(demand: StepUp, signal?: AbortSignal): Promise<Session> {
        for (;;) {
            // One that calls began, and that the app then would not have, is no answer to the app itself.
            const session = await this.joinStepUp(demand, true, signal)
            if (session) return session
        }
    }

    /** Starts a step-up and returns the page to open; then `finish`. */
    async startStepUp(demand: StepUp, signal?: AbortSignal): Promise<string> {
        // As for other calls of a session the proof is its key's, and no key is made for it.
        const answer = await this.call('POST', '/v1/logins', { body: { step_up: written(demand) }, evidence: 'proof', signal })
        return await this.keepLogin(answer.json)
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
        // Calls that were made together are refused one after the other.
        await sleep(this.gathering, signal)
        one.gathering = false
        if (!one.wanted && !(await this.options.onStepUp?.(one.demand))) return null
        if (!this.options.browser) throw new Error('no browser was given')
        const signIn = await this.follow(await this.startStepUp(one.demand, signal), undefined, 0, signal, 'proof')
        if (signIn.kind !== 'signedIn') throw new Error('not the answer to a step-up')
        this.stepUps += 1
        this.met = one.demand
        return signIn.session
    }

    /** Has the user step up for a call that was refused for want of it, once; throws where that is not to be. */
    private async stepUpFor(refused: StepUpRequired, mending: Mending, sentAfter: number, signal?: AbortSignal): Promise<void> {
        if (mending.steppedUp || refused.parent || !this.options.onStepUp) throw refused
        mending.steppedUp = true
        // Another call's has ended while this one was under way.
        if (sentAfter < this.stepUps && this.met && covers(this.met, refused.stepUp)) return
        if (!(await this.joinStepUp(refused.stepUp, false, signal))) throw refused
    }

    // ---- The user's presence -----------------------------------------------------------------------------------------

    /**
     * Registers the presence key for the session, soon after a sign-in or a `stepUp`; makes one where there is none, and asks the
     * user once. A session takes one in its life: where the key is gone, a `PresenceKeyLost` is thrown, and the next session takes
     * another.
     */
    async registerPresenceKey(signal?: AbortSignal): Promise<Session> {
        const key = this.presenceKey()
        const known = await key.publicKey()
        const registered = (await this.kept()).lastSession?.presence
        if (registered && (!known || thumbprint(known) !== registered.jkt)) throw new PresenceKeyLost()
        if (!known) await key.make()
        // Without the user at first: a sign-in that is too old is refused before.
        return await this.remembered('PUT', '/v1/session/presence-key', { evidence: 'proof', registers: true, signal })
    }

    private presenceKey(): ProofKey {
        if (!this.options.presenceKey || !this.options.key) throw new TypeError('no key was given that asks for the user, or none beside it')
        return this.options.presenceKey
    }

    /** Whether there is a key that the user could be asked by. */
    private async canAsk(session: string | null | undefined, registers?: boolean): Promise<boolean> {
        if (!this.options.presenceKey || !this.options.key || !session) return false
        const kept = await this.kept()
        const known = kept.session === session ? kept.lastSession : undefined
        return !known || (!!known.binding && (!!known.presence || !!registers))
    }

    /**
     * Asks the user for a call that lacks what only the user can do, and tells whether it is sent again. Throws where the user, or
     * the app, would not.
     */
    private async asksUser(
        problem: Problem, sent: { method: string; address: string; session?: string | null; repeatable: boolean; registers?: boolean; stepUps: number },
        mending: Mending, signal?: AbortSignal
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

    /** The proof that the user is there, for one request; who is asked for it waits for those that were asked for others. */
    private async presence(method: string, address: string, session: string, registers?: boolean, signal?: AbortSignal): Promise<string> {
        const key = this.presenceKey()
        return await this.prompts.taken(async () => {
            if (!this.hasYoungNonce()) {
                // The user is not asked for a proof that is too old when it is signed.
                await this.call('GET', '/v1/session', { as: session, evidence: 'proof', asksForNonce: true, signal })
                if (!this.hasYoungNonce()) throw new Unreachable('no nonce came')
            }
            const kept = await this.kept()
            const registered = kept.session === session ? kept.lastSession?.presence : null
            const known = await key.publicKey()
            if (!known || (registered && registered.jkt !== thumbprint(known))) throw new PresenceKeyLost()
            try {
                return await this.proof(key, known, this.nonce, method, address, session)
            } catch (lost) {
                // A no is one to all that wait.
                if (lost instanceof Cancelled) this.prompts.refuse(lost)
                if (!(lost instanceof KeyLost)) throw lost
                // One of a session before this signs no more, and registers as little.
                if (!registers) throw new PresenceKeyLost()
                return await this.proof(key, await key.make(), this.nonce, method, address, session)
            }
        }, signal)
    }

    /** Whether the nonce leaves the user a minute: it is good for five. */
    private hasYoungNonce(): boolean {
        const age = Date.now() - this.nonceReceived
        return this.nonce !== null && age >= 0 && age < 240_000
    }

    // ---- Relay and events ---------------------------------------------------------------------------------------------

    /**
     * Calls an upstream API with the session's access token, which the app never sees, and returns its answer, an upstream's 401
     * too: that one never ends the session. What the broker refuses is thrown. A call that may have reached the upstream is
     * sent again only where its method is idempotent, and a body only where it is a text or bytes.
     *
     * Where the broker wants the user to be there (`presence_required`), the presence key asks for it, one call after another. With
     * `presence` it does so at once, which saves a request; say so where you know that it will be wanted.
     */
    async relay(
        upstream: string, path: string, init: RequestInit & { query?: string; presence?: boolean; signal?: AbortSignal } = {}
    ): Promise<Response> {
        if (path.split('/').some(part => part === '' || part === '.' || part === '..' || /[?#]/.test(part))) {
            throw new TypeError('a path that could be read in more than one way')
        }
        const { query, signal, presence, ...rest } = init
        const method = (rest.method ?? 'GET').toUpperCase()
        const again = ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS'].includes(method)
        const streams = typeof ReadableStream !== 'undefined' && rest.body instanceof ReadableStream
        const address = escaped(`${this.broker}/v1/relay/${upstream}/${path}`)
        const url = `${address}${query ? `?${query}` : ''}`
        const mending = new Mending()
        if (presence) {
            this.presenceKey()
            const { session } = await this.kept()
            if (session && (await this.canAsk(session))) mending.presence = await this.presence(method, address, session, false, signal)
        }
        const attempt = async (): Promise<Attempt<Response>> => {
            const kept = await this.kept()
            const stepUps = this.stepUps
            const headers = new Headers(rest.headers)
            if (kept.session) headers.set('Authorization', `Bearer ${kept.session}`)
            if (mending.presence) headers.set('Coatcheck-Presence', mending.presence)
            let shown: Fields
            try {
                shown = await this.evidence('session', method, address, kept.session, mending, { signal })
            } catch (lost) {
                return await this.unsent(lost, kept.session, signal)
            }
            for (const name of Object.keys(shown)) headers.set(name, shown[name])
            let answer: Response
            try {
                answer = await this.send(url, { ...rest, method, headers, signal, redirect: 'manual', credentials: this.credentials() })
            } catch (lost) {
                if (signal?.aborted || !again) throw signal?.aborted ? lost : new Unreachable(String(lost))
                return { failure: new Unreachable(String(lost)) }
            }
            if (answer.headers.get('Coatcheck-Source') === 'upstream' || (answer.type as string) === 'opaqueredirect') return { value: answer }
            const problem = await this.problem(answer)
            if (!problem) return again ? { failure: new Unreachable(`status ${answer.status}`) } : fail(new Unreachable(`status ${answer.status}`))
            await this.learn(problem, kept.session)
            if (await this.mends(problem, 'session', again, mending, shown, kept.session)) return await attempt()
            const sent = { method, address, session: kept.session, repeatable: again, stepUps }
            if (!streams && (await this.asksUser(problem, sent, mending, signal))) return { failure: problem, atOnce: true }
            // A 408 may have reached the upstream in part; a 503 and a 429 of the broker's have not reached it.
            if (!problem.passes || (!again && problem.code === 'request_timeout')) throw problem
            return { failure: problem, retryAfter: retryAfter(answer.headers) }
        }
        return await this.repeated<Response>(this.deadline, signal, attempt)
    }

    /**
     * What happens to the session, until it ends or the signal is aborted; reconnects by itself. Listen in the foreground only:
     * the first event after a reconnect tells how things stand. Needs a fetch whose answers can be read as they come (browsers,
     * Node, `expo/fetch`; not React Native's own).
     */
    async *events(signal?: AbortSignal): AsyncGenerator<SessionEvent, void, void> {
        let mending = new Mending()
        const url = `${this.broker}/v1/session/events`
        for (let number = 0; ; number += 1) {
            let pause = (500 + Math.random() * 500) * 2 ** Math.min(number, 5)
            const kept = await this.kept()
            const sessions = this.keptSessions
            const headers: Fields = kept.session ? { Authorization: `Bearer ${kept.session}` } : {}
            try {
                // By a proof: opened by a pass it would end with that.
                Object.assign(headers, await this.evidence('proof', 'GET', url, kept.session, mending, { signal }))
                const answer = await this.send(url, { headers, signal, credentials: this.credentials() })
                if (answer.status === 200) {
                    mending = new Mending()
                    const body = (answer as { body?: unknown }).body as Stream | null | undefined
                    if (!body) throw new TypeError('this fetch cannot stream')
                    for await (const event of streamed(body)) {
                        number = 0
                        if (event.kind === 'session') event.session = await this.remember(event.session, kept.session, sessions)
                        if (event.kind === 'ended') await this.forget(kept.session)
                        yield event
                        if (event.kind === 'ended') return
                    }
                } else {
                    const problem = await this.problem(answer)
                    if (problem) {
                        await this.learn(problem, kept.session)
                        if (problem.endsSession) {
                            yield { kind: 'ended', reason: problem.reason }
                            return
                        }
                        if (await this.mends(problem, 'proof', true, mending, headers, kept.session)) continue
                        if (!problem.passes) throw problem
                    }
                    pause = Math.max(pause, retryAfter(answer.headers) ?? 0)
                }
            } catch (lost) {
                if (signal?.aborted) throw lost
                if (lost instanceof KeyLost) {
                    await this.forget(kept.session)
                    yield { kind: 'ended', reason: 'key_lost' }
                    return
                }
                if (lost instanceof KeyFailure) thrownByKey(lost)
                if (lost instanceof Problem || (lost instanceof TypeError && lost.message === 'this fetch cannot stream')) throw lost
            }
            await sleep(pause, signal)
        }
    }

    // ---- Calls --------------------------------------------------------------------------------------------------------

    private credentials(): 'include' | 'omit' { return this.options.transport === 'cookie' ? 'include' : 'omit' }

    private async kept(): Promise<Credentials> { return (await this.options.storage.read()) ?? {} }

    /** Changes what is kept, one change after the other: the only place that writes it. */
    private change(work: (kept: Credentials) => Credentials): Promise<Credentials> {
        const turn = this.turn.then(async () => {
            const before = await this.kept()
            const after = work(before)
            if (after.endings?.length === 0) delete after.endings
            const empty = after.session === undefined && after.login === undefined && !after.loginId && !after.endings && !after.lastSession
            if (after !== before) await this.options.storage.write(empty ? null : after)
            return after
        })
        this.turn = turn.catch(() => undefined)
        return turn
    }

    /** Replaces or removes the kept session. Later calls share requests for the new session only. */
    private async replace(work: (kept: Credentials) => Credentials): Promise<Credentials> {
        const kept = await this.change(kept => {
            this.keptSessions += 1
            return work(kept)
        })
        this.asking = null
        return kept
    }

    /** Calls the broker, again as long as that helps: every call of the API may be repeated. */
    private async call(method: string, path: string, call: Call, ending = false): Promise<Answer> {
        const mending = new Mending()
        return await this.repeated<Answer>(call.deadline ?? this.deadline, call.signal, limit => this.attempt(method, path, call, mending, limit, ending))
    }

    /** Calls the broker once; where evidence is refused that can be put right, once more. */
    private async attempt(method: string, path: string, call: Call, mending: Mending, limit: number, ending = false): Promise<Attempt<Answer>> {
        const begin = Date.now()
        const stepUps = this.stepUps
        const evidence = call.evidence ?? 'session'
        const session = call.as === undefined ? (await this.kept()).session : call.as
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
                Object.assign(headers, await this.evidence(evidence, method, this.broker + path, session, mending, more))
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
        // A proxy's page says as little about the session as no answer at all.
        if (!isProblem(answer, json)) return { failure: new Unreachable(`status ${answer.status}, not the broker's`) }
        const problem = problemOf(json)
        await this.learn(problem, session ?? undefined)
        if (await this.mends(problem, evidence, true, mending, headers, session)) {
            return await this.attempt(method, path, call, mending, Math.max(1, limit - (Date.now() - begin)), ending)
        }
        const sent = { method, address: this.broker + path, session, repeatable: true, registers: call.registers, stepUps }
        if (await this.asksUser(problem, sent, mending, call.signal)) return { failure: problem, atOnce: true }
        if (!problem.passes) throw problem
        return { failure: problem, retryAfter: retryAfter(answer.headers) }
    }

    /** Tells what a request that was not answered means: a failure that passes, or one that is thrown. */
    private async unsent(lost: unknown, session: string | null | undefined, signal?: AbortSignal): Promise<{ failure: Error }> {
        // The broker is not told of a lost key: the session may go on where it is, as on the phone that a back-up is of.
        if (lost instanceof KeyLost) await this.forget(session ?? undefined)
        if (signal?.aborted || lost instanceof KeyLost || lost instanceof KeyFailure || (lost instanceof Problem && !lost.passes)) throw lost
        return { failure: lost instanceof Problem ? lost : new Unreachable(String(lost)) }
    }

    /** Tries until there is a value, a failure is thrown, or the deadline has passed. */
    private async repeated<Value>(
        deadline: number, signal: AbortSignal | undefined,
        attempt: (limit: number) => Promise<Attempt<Value>>
    ): Promise<Value> {
        let begin = Date.now()
        for (let number = 0; ; number += 1) {
            if (signal?.aborted) throw reasonOf(signal)
            // However short the deadline is, the first try has its second.
            const result = await attempt(Math.max(deadline - (Date.now() - begin), number === 0 ? 1_000 : 1)).catch(thrownByKey)
            if ('value' in result) return result.value
            if (result.atOnce) {
                // The user takes as long as it takes.
                [begin, number] = [Date.now(), -1]
                continue
            }
            const growing = (200 + Math.random() * 200) * 2 ** Math.min(number, 6)
            const pause = result.retryAfter ? result.retryAfter + Math.random() * 250 : growing
            if (pause > Math.min(deadline - (Date.now() - begin), 30_250)) throw result.failure
            await sleep(pause, signal)
        }
    }

    private async problem(answer: Response): Promise<Problem | null> {
        if (answer.status < 400 || !isProblemType(answer)) return null
        const json = parsed(await answer.text())
        return isProblem(answer, json) ? problemOf(json) : null
    }

    private async learn(problem: Problem, sent: string | undefined): Promise<void> {
        if (problem.endsSession) await this.forget(sent)
        if (problem.json.login) await this.keepLogin(problem.json.login)
    }

    /** Forgets the session, unless another took its place while the answer was under way. */
    private async forget(sent: string | undefined): Promise<void> {
        await this.change(kept => (kept.session === sent ? { login: kept.login, loginId: kept.loginId, endings: kept.endings } : kept))
    }

    // ---- Evidence of a bound session -----------------------------------------------------------------------------------

    /** A bound session's pass for requests of the app's own, sent as `Coatcheck-Pass`; renewed where it is due, null where none is needed. */
    async pass(signal?: AbortSignal): Promise<string | null> {
        const kept = await this.kept()
        if (!kept.session || (kept.lastSession && kept.lastSession.binding?.evidence !== 'pass')) return null
        try {
            return await this.passOf(kept.session, undefined, signal)
        } catch (lost) {
            if (lost instanceof KeyLost) await this.forget(kept.session)
            return thrownByKey(lost)
        }
    }

    /** The header fields that show a request's evidence. */
    private async evidence(
        wanted: Evidence, method: string, url: string, session: string | null | undefined, mending: Mending,
        more: { before?: Credentials; asksForNonce?: boolean; signal?: AbortSignal }
    ): Promise<Fields> {
        const { key } = this.options
        if (wanted === 'signIn') return key ? { DPoP: await asked(this.signInProof(key, method, url)) } : {}
        const nonce = more.asksForNonce && !mending.nonce ? null : this.nonce
        if (wanted === 'none' || !session) return {}
        const now = more.before ?? (await this.kept())
        const kept: Credentials = now.session === session ? now : {}
        const binding = kept.lastSession?.binding
        if (wanted === 'session') {
            // It may be bound all the same, where a storage forgot whose it is.
            if (!mending.bound && !binding) return kept.pass ? { 'Coatcheck-Pass': kept.pass.value } : {}
            const pass = this.provesEach || binding?.evidence === 'proof' ? null : await this.passOf(session, more.before, more.signal)
            if (pass) return { 'Coatcheck-Pass': pass }
        } else if (kept.lastSession && !binding && !mending.bound) return {}
        return key ? { DPoP: await asked(this.sessionProof(key, nonce, method, url, session, binding?.jkt)) } : {}
    }

    /** Whether a refused request is sent again at once; forgets a pass that was refused. Throws where the key is not this device's. */
    private async mends(
        problem: Problem, evidence: Evidence, repeatable: boolean, mending: Mending, sent: Fields, session: string | null | undefined
    ): Promise<boolean> {
        if (problem.status !== 401 || !this.options.key) return false
        if (problem.code === 'proof_invalid' && problem.reason === 'key') {
            await this.forget(session ?? undefined)
            throw new KeyLost()
        }
        if (!mending.mends(problem, evidence, repeatable)) return false
        const refused = sent['Coatcheck-Pass']
        if (refused && problem.reason !== 'replayed') await this.change(kept => (kept.pass?.value === refused ? { ...kept, pass: undefined } : kept))
        return true
    }

    /** Signs a request that makes a login or a session: a device without a key makes one. */
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

    /** A DPoP proof (RFC 9449); its time is that of the device's clock, which may be wrong: the nonce decides. */
    private async proof(
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

    /** Makes a key, one for all sign-ins that want one, unless there is another than the one that was lost by now. */
    private makeKey(key: ProofKey, lost?: ProofPublicKey): Promise<ProofPublicKey> {
        const make = async () => {
            const now = await key.publicKey()
            return now && now.x !== lost?.x ? now : await key.make()
        }
        this.making = this.making ?? make().finally(() => { this.making = null })
        return this.making
    }

    /** The kept pass, or a new one where that is due: calls at the same time share the request. Null where proofs are wanted. */
    private async passOf(session: string, before?: Credentials, signal?: AbortSignal): Promise<string | null> {
        const now = before ?? (await this.kept())
        const pass = now.session === session ? now.pass : undefined
        if (!this.options.key || (pass && !isDue(pass))) return pass?.value ?? null
        if (!this.renewing?.call.isOpen || this.renewing.session !== session) {
            this.renewing = { session, call: new SharedCall(signal => this.renew(session, signal)) }
        }
        try {
            return await this.renewing.call.value(signal)
        } catch (lost) {
            // Without a network, or with a key that cannot be asked now, it is shown once more.
            const passes = !(lost instanceof KeyLost) && (!(lost instanceof Problem) || lost.passes) && !signal?.aborted
            if (pass && passes) return pass.value
            throw lost
        }
    }

    private async renew(session: string, signal: AbortSignal): Promise<string | null> {
        const kept = await this.kept()
        // Another call may have renewed it while the storage was read.
        if (kept.session === session && kept.pass && !isDue(kept.pass)) return kept.pass.value
        try {
            const result = await this.attempt('POST', '/v1/session/pass', { evidence: 'proof', as: session, signal }, new Mending(), 40_000)
            if (!('value' in result)) throw result.failure
            const pass = passOf(result.value.json)
            await this.change(now => (now.session === session ? { ...now, pass } : now))
            return pass?.value ?? null
        } catch (refused) {
            if (!(refused instanceof Problem) || refused.code !== 'client_not_allowed') throw refused
            this.provesEach = true
            return null
        }
    }
}

/** What a key threw that cannot be asked now: it is thrown as it is, not repeated as a lost answer. */
class KeyFailure extends Error {
    constructor(readonly thrown: unknown) { super(String(thrown)) }
}

async function asked<Value>(key: Promise<Value>): Promise<Value> {
    return await key.catch(error => fail(error instanceof KeyLost ? error : new KeyFailure(error)))
}

function thrownByKey(lost: unknown): never { throw lost instanceof KeyFailure ? lost.thrown : lost }

/** The pass that an answer brings. */
function passOf(body: { pass?: string; expires_in: number } | undefined): Credentials['pass'] {
    return body?.pass ? { value: body.pass, received: Date.now(), lifetime: body.expires_in } : undefined
}

/** Whether it is time for another pass: in the last minute or quarter of its life, and after a clock was set back. */
function isDue(pass: { received: number; lifetime: number }): boolean {
    const age = (Date.now() - pass.received) / 1000
    return age < 0 || age > pass.lifetime - Math.min(60, pass.lifetime / 4)
}

/** The JSON Web Key, its members in the order of their names: the form of which RFC 7638 takes the thumbprint. */
function jwk(key: ProofPublicKey): string { return `{"crv":"P-256","kty":"EC","x":"${key.x}","y":"${key.y}"}` }

function thumbprint(key: ProofPublicKey): string { return base64url(sha256(bytes(jwk(key)))) }

/** A word that is unlike this key's others; it is signed, and need not be a secret. */
function unlikeOthers(): string { return [1, 2, 3].map(() => Math.random().toString(36).slice(2)).join('') + Date.now().toString(36) }

/** An address as it goes over the wire and into a proof: what no address may hold is escaped. */
function escaped(url: string): string { return url.replace(/[^\x21-\x7e]+|["<>`{}]/g, encodeURIComponent) }

function bytes(text: string): Uint8Array { return Uint8Array.from(text, letter => letter.charCodeAt(0)) }

function base64url(data: Uint8Array): string {
    const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    let text = ''
    for (let at = 0; at < data.length; at += 3) {
        const [one, two = 0, three = 0] = [data[at], data[at + 1], data[at + 2]]
        text += letters[one >> 2] + letters[((one & 3) << 4) | (two >> 4)] + letters[((two & 15) << 2) | (three >> 6)] + letters[three & 63]
    }
    return text.slice(0, Math.ceil((data.length * 4) / 3))
}

const primes = Array.from({ length: 310 }, (_, at) => at + 2).filter(one => !Array.from({ length: 16 }, (_, at) => at + 2).some(by => by < one && one % by === 0))
const fraction = (root: number) => ((root - Math.floor(root)) * 2 ** 32) | 0

/** SHA-256 (FIPS 180-4), of tokens and keys alone: React Native has none. Its constants are the roots of the first primes. */
function sha256(message: Uint8Array): Uint8Array {
    const state = primes.slice(0, 8).map(prime => fraction(Math.sqrt(prime)))
    const rounds = primes.slice(0, 64).map(prime => fraction(Math.cbrt(prime)))
    const turned = (word: number, by: number) => (word >>> by) | (word << (32 - by))
    const padded = new DataView(new ArrayBuffer(Math.ceil((message.length + 9) / 64) * 64))
    message.forEach((byte, at) => padded.setUint8(at, byte))
    padded.setUint8(message.length, 0x80)
    padded.setUint32(padded.byteLength - 4, message.length * 8)
    for (let start = 0; start < padded.byteLength; start += 64) {
        const words = Array.from({ length: 16 }, (_, at) => padded.getInt32(start + at * 4))
        for (let at = 16; at < 64; at += 1) {
            const [early, late] = [words[at - 15], words[at - 2]]
            const mixed = (turned(early, 7) ^ turned(early, 18) ^ (early >>> 3)) + (turned(late, 17) ^ turned(late, 19) ^ (late >>> 10))
            words.push((words[at - 16] + words[at - 7] + mixed) | 0)
        }
        let [a, b, c, d, e, f, g, h] = state
        for (let at = 0; at < 64; at += 1) {
            const added = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + rounds[at] + words[at]) | 0
            const first = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            [a, b, c, d, e, f, g, h] = [(added + first) | 0, a, b, c, (d + added) | 0, e, f, g]
        }
        for (const [at, word] of [a, b, c, d, e, f, g, h].entries()) state[at] = (state[at] + word) | 0
    }
    const digest = new DataView(new ArrayBuffer(32))
    state.forEach((word, at) => digest.setInt32(at * 4, word))
    return new Uint8Array(digest.buffer)
}

/** A call that several callers wait for; it is aborted when the last of them leaves off. */
class SharedCall<Value> {
    private readonly abort = new AbortController()
    private readonly work: Promise<Value>
    private waiting = 0
    private over = false

    constructor(work: (signal: AbortSignal) => Promise<Value>) {
        this.work = work(this.abort.signal).finally(() => { this.over = true })
        // Whoever waits hears of it; with nobody left there is nobody to tell.
        this.work.catch(() => undefined)
    }

    get isOpen(): boolean { return !this.over && !this.abort.signal.aborted }

    async value(signal?: AbortSignal): Promise<Value> {
        if (signal?.aborted) throw reasonOf(signal)
        this.waiting += 1
        let left: () => void = () => undefined
        const leaving = new Promise<never>((_, reject) => {
            left = () => reject(signal && reasonOf(signal))
            signal?.addEventListener('abort', left)
        })
        leaving.catch(() => undefined)
        try {
            return await Promise.race([this.work, leaving])
        } finally {
            signal?.removeEventListener('abort', left)
            this.waiting -= 1
            if (this.waiting === 0 && !this.over) this.abort.abort()
        }
    }
}

/** Work that is done one at a time, in the order of asking. */
class Turn {
    private isTaken = false
    private waiting: { begin: () => void; fail: (error: unknown) => void }[] = []

    /** Does work when it is its turn; who is aborted before that leaves off at once. */
    async taken<Value>(work: () => Promise<Value>, signal?: AbortSignal): Promise<Value> {
        if (signal?.aborted) throw reasonOf(signal)
        if (this.isTaken) await this.wait(signal)
        this.isTaken = true
        try {
            return await work()
        } finally {
            const next = this.waiting.shift()
            if (next) next.begin()
            else this.isTaken = false
        }
    }

    /** Fails all that wait now. */
    refuse(error: unknown): void { for (const one of this.waiting.splice(0)) one.fail(error) }

    private wait(signal?: AbortSignal): Promise<void> {
        return new Promise((resolve, reject) => {
            const left = () => {
                this.waiting = this.waiting.filter(other => other !== one)
                reject(signal && reasonOf(signal))
            }
            const over = () => signal?.removeEventListener('abort', left)
            const one = { begin: () => { over(); resolve() }, fail: (error: unknown) => { over(); reject(error) } }
            this.waiting.push(one)
            signal?.addEventListener('abort', left)
        })
    }
}

function reasonOf(signal: AbortSignal): Error {
    const reason = (signal as { reason?: unknown }).reason
    if (reason instanceof Error) return reason
    const error = new Error('aborted')
    error.name = 'AbortError'
    return error
}

function fail(error: Error): never { throw error }

/**
 * A parameter of a query, or null. React Native's `URLSearchParams` throws: older ones at each `get`, newer ones at an invalid
 * escape in any parameter.
 */
function parameter(query: string, name: string): string | null {
    for (const pair of query.split('&')) {
        const at = pair.indexOf('=')
        if (unescaped(at < 0 ? pair : pair.slice(0, at)) === name) return at < 0 ? '' : unescaped(pair.slice(at + 1))
    }
    return null
}

function unescaped(text: string): string {
    const spaced = text.replace(/\+/g, ' ')
    try {
        return decodeURIComponent(spaced)
    } catch {
        return spaced
    }
}

/** Does work that is aborted by the caller's signal or when the time has passed. */
async function limited<Value>(limit: number, signal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<Value>): Promise<Value> {
    const abort = new AbortController()
    const pass = () => abort.abort()
    const timer = setTimeout(pass, limit)
    signal?.addEventListener('abort', pass)
    try {
        return await work(abort.signal)
    } catch (error) {
        throw signal?.aborted ? reasonOf(signal) : error
    } finally {
        clearTimeout(timer)
        signal?.removeEventListener('abort', pass)
    }
}

function sleep(millis: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
        const left = () => {
            clearTimeout(timer)
            reject(signal && reasonOf(signal))
        }
        const timer = setTimeout(() => {
            signal?.removeEventListener('abort', left)
            resolve()
        }, millis)
        if (signal?.aborted) left()
        else signal?.addEventListener('abort', left)
    })
}

function parsed(text: string): any {
    try {
        return text === '' ? undefined : JSON.parse(text)
    } catch {
        return undefined
    }
}

function isProblemType(answer: Response): boolean { return (answer.headers.get('Content-Type') ?? '').startsWith('application/problem+json') }

function isProblem(answer: Response, json: any): boolean { return isProblemType(answer) && typeof json?.code === 'string' && typeof json.status === 'number' }

function problemOf(json: { [member: string]: any }): Problem {
    return json.status === 401 && json.code === 'step_up_required' ? new StepUpRequired(json) : new Problem(json)
}

function retryAfter(headers: Headers): number | null {
    const seconds = Number.parseInt(headers.get('Retry-After') ?? '', 10)
    return Number.isFinite(seconds) ? seconds * 1000 : null
}

/** The events of a stream, as they come. */
async function* streamed(body: Stream): AsyncGenerator<SessionEvent, void, void> {
    const reader = body.getReader()
    const decoder = new TextDecoder()
    let buffer = ''
    try {
        for (;;) {
            // The broker says something every 25 seconds.
            const part = await limited(60_000, undefined, signal => Promise.race([reader.read(), aborted(signal)]))
            if (part.done) return
            buffer += decoder.decode(part.value, { stream: true })
            for (let end = buffer.indexOf('\n\n'); end >= 0; end = buffer.indexOf('\n\n')) {
                const lines = buffer.slice(0, end).split('\n')
                buffer = buffer.slice(end + 2)
                const name = lines.find(line => line.startsWith('event: '))?.slice(7)
                const data = parsed(lines.filter(line => line.startsWith('data: ')).map(line => line.slice(6)).join('\n'))
                if (name === 'session') yield { kind: 'session', session: data }
                if (name === 'tokens_refreshed') yield { kind: 'tokensRefreshed' }
                if (name === 'session_ended') yield { kind: 'ended', reason: data?.reason ?? null }
            }
        }
    } finally {
        reader.cancel().catch(() => undefined)
    }
}

function aborted(signal: AbortSignal): Promise<never> {
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(reasonOf(signal))))
}
