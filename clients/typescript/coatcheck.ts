// Made by scripts/build-clients from clients/typescript/sources; not for editing.
//
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

// ==== sources/platform.ts ===============================================================================================
// The types of the platform that the client uses. If the platform declares them, the platform's own types are used. The client
// compiles with the DOM's library, with React Native's types, and without both.

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

// ==== sources/values.ts =================================================================================================
// The values that an app gives and receives: sessions, outcomes, demands, and errors.

/** The session of the signed-in user, as the broker reports it, without tokens. Later brokers may add members. */
export interface Session {
    handle: string
    /**
     * The number of this state. The client never replaces a state by one with a lower number. It is missing from older
     * brokers.
     */
    version?: number
    provider: string
    client: string
    subject: string
    /** The claims that the provider confirmed. `unverified` holds claims that came only in a callback parameter. */
    identity: { [claim: string]: unknown }
    /** The granted scopes. The list is empty when they are unknown. */
    scope: string[]
    created_at: string
    last_used_at: string
    idle_expires_at: string
    expires_at: string
    tokens: { expires_at: string | null; refreshable: boolean }
    /** The key of a bound session, as its thumbprint (RFC 7638). `evidence` is `pass` or `proof`. */
    binding?: { jkt: string; evidence: string } | null
    /** The strength (`acr`), the methods (`amr`) and the time of the last sign-in at the provider, if the provider sent them. */
    acr?: string | null
    amr?: string[]
    authenticated_at?: string | null
    /** The key that proves the user's presence, as its thumbprint. */
    presence?: { jkt: string; registered_at: string } | null
    /** The kind of a child session, and the handle of its parent. */
    kind?: string | null
    parent?: string | null
    /** Whether this is the device's own session. Only lists of sessions have it. */
    current?: boolean
    device?: string | null
}

/** A session for another process of the app, with its token. That process sends it as `Authorization: Bearer`. */
export interface Child extends Session { session_token: string }

/** The cookie of a hand-over. A web view's store must have it before the web view loads the address. */
export interface HandOverCookie { url: string; name: string; value: string; path: '/'; secure: boolean; httpOnly: true; sameSite: 'strict'; maxAge: 60 }

/** A Zephr partial registration. Show a form with its `fields`, then call `register`. */
export interface Registration {
    provider: string
    state_key: string
    identifier: string | null
    expires_at: string
    fields: { name: string; type: string; required: boolean }[]
}

/** A demand on the strength and the age of the sign-in: the allowed values of its `acr`, and the largest age in seconds. */
export interface StepUp { acrValues?: string[]; maxAge?: number }

/** The outcome of a sign-in. */
export type SignIn = { kind: 'signedIn'; session: Session } | { kind: 'registration'; registration: Registration }

/**
 * The outcome of a move from the old cookie.
 * - `moved`: the user is signed in at the broker.
 * - `signIn`: the user has to sign in.
 * - `later`: the broker is unavailable, so move at the next load of the page. `problem` is null after a missing answer.
 * - `notNow`: the broker refused the request, for example because the move is closed (403). The page goes
 *   on with its old cookie.
 */
export type MovedIn =
    | { kind: 'moved'; session: Session }
    | { kind: 'signIn'; problem: Problem }
    | { kind: 'later'; problem: Problem | null }
    | { kind: 'notNow'; problem: Problem }

/**
 * The state of the sign-in at the start of an app. `unknown` means that the broker is unreachable and the user stays signed in.
 * In this case show the last user.
 */
export type Standing =
    | { kind: 'signedIn'; session: Session }
    | { kind: 'signedOut'; reason: string | null }
    | { kind: 'unknown'; last: Session | null }

/** An event of a session. `ended` is the last one. */
export type SessionEvent = { kind: 'session'; session: Session } | { kind: 'tokensRefreshed' } | { kind: 'ended'; reason: string | null }

/**
 * A browser that opens a sign-in page and returns the whole URL of the callback. It closes the page if the signal is aborted.
 * It throws a `Cancelled` if the user closes the page.
 */
export interface SignInBrowser {
    open(page: string, signal?: AbortSignal): Promise<string>
}

/** A login that the app or a native SDK started. Keep it until the session exists; it is plain JSON. */
export interface AppLogin {
    provider: string
    client: string
    state?: string
    codeVerifier?: string
    /** The nonce that the app made, unhashed. The SDK may have received its `hashedNonce`. */
    nonce?: string
    /** The scopes that the app asked for, separated by spaces. Set them if they are fewer than the client may ask for. */
    scope?: string
    /** The redirect address of the login, for `forwardCode`. Set it if the client has several. */
    redirectURI?: string
    /** A secret of 32 random bytes in base64url for this attempt. A repeated request with it gets the same session. */
    loginToken: string
}

export interface Options {
    broker: string
    /** The client's name. It is optional if the provider has only one client. */
    client?: string
    /** The transport of the credentials, as configured at the broker. */
    transport: 'cookie' | 'bearer'
    storage: CredentialStorage
    /**
     * The key for bearer clients whose sessions the broker binds. Cookie clients cannot use a key, because a proof contains
     * a hash of the secret and no script can read the cookie.
     */
    key?: ProofKey
    /** A key that asks the user before each signature; see `registerPresenceKey`. */
    presenceKey?: ProofKey
    /**
     * Decides whether a call that needs a stronger or more recent sign-in may open the browser. Without `onStepUp`, such a
     * call throws a `StepUpRequired`.
     */
    onStepUp?: (demand: StepUp) => boolean | Promise<boolean>
    browser?: SignInBrowser
    fetch?: Fetch
    /** The time for a call in milliseconds, including its repetitions. The default is 60 seconds. */
    deadline?: number
}

/** A refusal by the broker (RFC 9457). To react, use `code`. Put `requestId` into bug reports. */
export class Problem extends Error {
    readonly status: number
    readonly code: string
    readonly requestId: string
    /** The reason why a session ended or a proof was refused. */
    readonly reason: string | null
    /** The provider's error code, if a standard defines it. */
    readonly providerError: string | null
    /** The demand and the result of the sign-in, for `step_up_failed`, if they are known. */
    readonly required: StepUp | null
    readonly got: { acr: string | null; authenticated_at: string | null } | null
    /**
     * Whether a child session needs its parent. For `step_up_required`, the parent steps up and makes a new child. For
     * `presence_required`, the parent makes the call itself.
     */
    readonly parent: boolean
    /** The whole JSON body. */
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

    /** Whether the session has ended. */
    get endsSession(): boolean { return this.status === 401 && (this.code === 'session_ended' || this.code === 'session_required') }

    /** Whether the same request may succeed after a pause. */
    get passes(): boolean { return (this.status === 503 && this.json.retry !== 'new_login') || this.status === 429 || this.status === 408 }
}

/**
 * A refusal of a call that needs a stronger or more recent sign-in, if no browser was opened. See `stepUp`. The session is
 * unchanged.
 */
export class StepUpRequired extends Problem {
    /** The demand, which a step-up has to meet. */
    readonly stepUp: StepUp

    constructor(json: { [member: string]: any }) {
        super(json)
        this.name = 'StepUpRequired'
        this.stepUp = demandOf(json.step_up ?? {})
    }
}

/** The user closed the sign-in page, or refused to show a face, a finger or the device's code. */
export class Cancelled extends Error {
    constructor() {
        super('the user cancelled it')
        this.name = 'Cancelled'
    }
}

/** The session's presence key is gone from this device. Sign in again, and register another key. */
export class PresenceKeyLost extends Error {
    constructor() {
        super('this device has to be signed in again: the key that asks for the user is gone')
        this.name = 'PresenceKeyLost'
    }
}

/** The broker is unreachable, or the response comes from another server. All data is kept. */
export class Unreachable extends Error {
    constructor(why: string) {
        super(why)
        this.name = 'Unreachable'
    }
}

/** The hosted callback contains an error. */
export class LoginFailed extends Error {
    constructor(readonly code: string) {
        super(code)
        this.name = 'LoginFailed'
    }
}

/** The session's key is gone from this device (a restored backup, a new phone). Sign in again. */
export class KeyLost extends Error {
    constructor() {
        super('this device has to be signed in again: its key is gone')
        this.name = 'KeyLost'
    }
}

/**
 * Returns the newer of two states of a session. A replica may answer with data that is some seconds old, so a lower version
 * never replaces a higher one. An equal version replaces the known state, and so does the response of an older broker, which
 * has no version.
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

/** Whether a sign-in that meets the demand `one` also meets the demand `other`. */
function covers(one: StepUp, other: StepUp): boolean {
    const strong = !other.acrValues || (one.acrValues?.every(word => other.acrValues?.includes(word)) ?? false)
    return strong && (other.maxAge === undefined || (one.maxAge ?? Infinity) <= other.maxAge)
}

/** Returns a demand that combines both demands, or null if no `acr` value meets both. */
function joined(one: StepUp, other: StepUp): StepUp | null {
    const acrValues = one.acrValues && other.acrValues ? one.acrValues.filter(word => other.acrValues?.includes(word)) : one.acrValues ?? other.acrValues
    if (acrValues?.length === 0) return null
    const maxAge = Math.min(one.maxAge ?? Infinity, other.maxAge ?? Infinity)
    return { ...(acrValues ? { acrValues } : {}), ...(maxAge < Infinity ? { maxAge } : {}) }
}

// ==== sources/storage.ts ================================================================================================
// The data that a device keeps, and the order of its changes.

/** The data that a device keeps. For a cookie client, the browser keeps the cookies. */
export interface Credentials {
    /** The session token of a bearer client. */
    session?: string
    /** The login token of a bearer client, which has to survive a restart of the app until the session exists. */
    login?: string
    loginId?: string
    lastSession?: Session
    /**
     * The evidence of a bound session, valid for some minutes. `received` is in milliseconds by this device's clock,
     * `lifetime` in seconds.
     */
    pass?: { value: string; received: number; lifetime: number }
    /** The sessions that the broker still has to end, at most the newest eight. Null means the session in the cookie. */
    endings?: (string | null)[]
    /** The login token of a move from the old cookie. Each repeated request contains the same one. */
    moveIn?: string
}

/** A place on the device for the credentials: the platform's secure storage. `read` throws if it is temporarily unreadable. */
export interface CredentialStorage {
    read(): Promise<Credentials | null>
    write(credentials: Credentials | null): Promise<void>
}

/** A storage in memory, which lasts as long as the page or the process. */
export class MemoryStorage implements CredentialStorage {
    private kept: Credentials | null = null
    async read(): Promise<Credentials | null> { return this.kept && { ...this.kept } }
    async write(credentials: Credentials | null): Promise<void> { this.kept = credentials && { ...credentials } }
}

/** The stored credentials. All changes go through this class, one after the other. */
class Keeping {
    private turn: Promise<unknown> = Promise.resolve()
    /**
     * The number of sessions that were stored so far. It identifies a session, because a page cannot compare session cookies.
     */
    sessions = 0

    constructor(private readonly storage: CredentialStorage) {}

    async kept(): Promise<Credentials> { return (await this.storage.read()) ?? {} }

    /** Changes the stored credentials, one change after the other. */
    change(work: (kept: Credentials) => Credentials): Promise<Credentials> {
        const turn = this.turn.then(async () => {
            const before = await this.kept()
            const after = work(before)
            if (after.endings?.length === 0) delete after.endings
            const empty = after.session === undefined && after.login === undefined && !after.loginId && !after.endings && !after.lastSession && !after.moveIn
            if (after !== before) await this.storage.write(empty ? null : after)
            return after
        })
        this.turn = turn.catch(() => undefined)
        return turn
    }

    /** Replaces or removes the stored session. */
    replace(work: (kept: Credentials) => Credentials): Promise<Credentials> {
        return this.change(kept => {
            this.sessions += 1
            return work(kept)
        })
    }

    /** Stores a received state of the session, if the same session made the request. Returns the newest known state. */
    async remember(session: Session, sent: string | undefined, sessions: number): Promise<Session> {
        const kept = await this.change(kept =>
            kept.session === sent && this.sessions === sessions && !kept.endings?.includes(null) ? { ...kept, lastSession: newest(kept.lastSession, session) } : kept)
        return newest(kept.lastSession, session)
    }

    /** Forgets the session, unless another session replaced it before the response arrived. */
    async forget(sent: string | undefined): Promise<void> {
        await this.change(kept => (kept.session === sent ? { login: kept.login, loginId: kept.loginId, endings: kept.endings } : kept))
    }

    /** Keeps a started login, and returns the page to open. */
    async keepLogin(login: { login_id: string; authorization_url: string; login_token?: string }): Promise<string> {
        await this.change(kept => ({ ...kept, login: login.login_token ?? kept.login, loginId: login.login_id }))
        return login.authorization_url
    }
}

// ==== sources/keys.ts ===================================================================================================
// The keys of a device, and the digests that identify them.

/** The public half of a `ProofKey`. The coordinates of its point are 32 bytes each in base64url, as in its JSON Web Key. */
export interface ProofPublicKey { x: string; y: string }

/**
 * A P-256 key that owns the sessions of this device (docs/apps/bound-sessions.md). A copied token is useless without it.
 *
 * In a browser and Node, use `WebCryptoKey`. React Native needs a module for the Secure Enclave and the Keystore. A key
 * that asks the user before each signature implements the same interface.
 */
export interface ProofKey {
    /**
     * Returns the public key, or null if it is lost. Throws if the key exists but is temporarily unavailable.
     */
    publicKey(): Promise<ProofPublicKey | null>
    /** Makes a key, which replaces a lost one. Only sign-ins and `registerPresenceKey` call it. */
    make(): Promise<ProofPublicKey>
    /**
     * Returns the ES256 signature: r and s, 32 bytes each. Throws a `KeyLost` if the key can never sign again, and a
     * `Cancelled` if the user refused.
     */
    sign(bytes: Uint8Array): Promise<Uint8Array>
}

/** A storage for a pair of keys. Scripts can use the keys but cannot read them. */
export interface KeyPairStorage {
    read(): Promise<CryptoKeyPair | null>
    write(pair: CryptoKeyPair): Promise<void>
}

/** A WebCrypto key that is unreadable for scripts. In a browser it is stored in IndexedDB. */
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

/** Returns a storage for a pair of keys in a browser's IndexedDB, under a name. */
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
 * An error of a key that is temporarily unavailable. It is thrown unchanged. Unlike a lost response, it causes no repetition.
 */
class KeyFailure extends Error {
    constructor(readonly thrown: unknown) { super(String(thrown)) }
}

async function asked<Value>(key: Promise<Value>): Promise<Value> {
    return await key.catch(error => fail(error instanceof KeyLost ? error : new KeyFailure(error)))
}

function thrownByKey(lost: unknown): never { throw lost instanceof KeyFailure ? lost.thrown : lost }

/** Returns the JSON Web Key with its members sorted by name. RFC 7638 computes the thumbprint from this form. */
function jwk(key: ProofPublicKey): string { return `{"crv":"P-256","kty":"EC","x":"${key.x}","y":"${key.y}"}` }

function thumbprint(key: ProofPublicKey): string { return base64url(sha256(bytes(jwk(key)))) }

/** Returns a text that is different each time, for the ID of a proof. It is part of the signed text, and may be public. */
function unlikeOthers(): string { return [1, 2, 3].map(() => Math.random().toString(36).slice(2)).join('') + Date.now().toString(36) }

/** Returns the SHA-256 of a nonce in hexadecimal digits, as the SDKs of Apple and Google expect it. */
export function hashedNonce(nonce: string): string { return Array.from(sha256(bytes(nonce)), byte => byte.toString(16).padStart(2, '0')).join('') }

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

/**
 * Computes SHA-256 (FIPS 180-4) of tokens and keys, because React Native lacks it. Its constants are the roots of the first
 * primes.
 */
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

// ==== sources/waiting.ts ================================================================================================
// Work that callers wait for: together, one after the other, with a limit, and with a pause.

/** A call that several callers wait for. It is aborted if all of them stop waiting. */
class SharedCall<Value> {
    private readonly abort = new AbortController()
    private readonly work: Promise<Value>
    private waiting = 0
    private over = false

    constructor(work: (signal: AbortSignal) => Promise<Value>) {
        this.work = work(this.abort.signal).finally(() => { this.over = true })
        // Each waiting caller receives the error itself. This handler is for an error that no caller waits for.
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

/** A queue that does one piece of work at a time, in the order of the requests. */
class Turn {
    private isTaken = false
    private waiting: { begin: () => void; fail: (error: unknown) => void }[] = []

    /** Does the work when its turn comes. If `signal` is aborted before, the call fails at once. */
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

    /** Fails all waiting callers. */
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

/** Runs work that is aborted by the caller's signal or after the time limit. */
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

function aborted(signal: AbortSignal): Promise<never> {
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(reasonOf(signal))))
}

// ==== sources/evidence.ts ===============================================================================================
// The evidence of a bound session: the kind that a call needs, proofs and passes, and new evidence after a refusal.

/**
 * The evidence of a bound session's key that a call sends.
 * - `signIn`: a proof, which makes the key the owner of the new session.
 * - `session`: a pass, or a proof if the client's sessions need a proof with each request.
 * - `proof`: a proof, because the result of the call outlives a pass.
 */
type Evidence = 'none' | 'signIn' | 'session' | 'proof'

/**
 * The evidence that a call lacks, added after the broker's refusal. Each kind is added at most once, so that a call cannot
 * loop.
 */
class Mending {
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
class Proofs {
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
function passOf(body: { pass?: string; expires_in: number } | undefined): Credentials['pass'] {
    return body?.pass ? { value: body.pass, received: Date.now(), lifetime: body.expires_in } : undefined
}

/**
 * Whether a pass needs a renewal. It does in the last minute of its lifetime (or the last quarter, if that is shorter), and
 * after the clock was set back.
 */
function isDue(pass: { received: number; lifetime: number }): boolean {
    const age = (Date.now() - pass.received) / 1000
    return age < 0 || age > pass.lifetime - Math.min(60, pass.lifetime / 4)
}

// ==== sources/calls.ts ==================================================================================================
// The requests to the broker, and the consequences of their answers.

/** A request to make, apart from its method and path. */
interface Call {
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
type Attempt<Value> = { value: Value } | { failure: Error; retryAfter?: number | null; atOnce?: true }

/** Header fields. */
type Fields = { [name: string]: string }

/** A response that was read to its end. */
interface Answer { status: number; headers: Headers; json: any }

/** A request that was refused. `stepUps` is the number of step-ups before it was sent. */
interface Sent { method: string; address: string; session?: string | null; repeatable: boolean; registers?: boolean; stepUps: number }

/** The user, whom a refused call may ask for a missing step. */
interface User {
    /** The number of step-ups so far. */
    readonly stepUps: number
    asksUser(problem: Problem, sent: Sent, mending: Mending, signal?: AbortSignal): Promise<boolean>
}

/** The requests to the broker. A request is repeated and corrected as long as that can help. */
class Calls {
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
function escaped(url: string): string { return url.replace(/[^\x21-\x7e]+|["<>`{}]/g, encodeURIComponent) }

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

// ==== sources/asking.ts =================================================================================================
// The two ways to ask the user after a refused call: a step-up in the browser, and a prompt of the presence key.

/** A step-up, and the demands that it has to meet. Its call returns null if the app declined to open a browser for calls. */
class SteppingUp {
    /** Whether further demands can still be added. */
    gathering = true
    call!: SharedCall<Session | null>
    /** Creates a step-up. `wanted` is true if the app itself requested it. */
    constructor(public demand: StepUp, public wanted: boolean) {}
}

/** The step-ups and the presence proofs. Calls wait while the user answers. */
class Asking implements User {
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

// ==== sources/relay.ts ==================================================================================================
// The two answers that the client passes on unchanged: an upstream's response, and the events of a session.

/** Calls an upstream, and returns its response. */
async function relayed(
    calls: Calls, asking: Asking, upstream: string, path: string, init: RequestInit & { query?: string; presence?: boolean; signal?: AbortSignal } = {}
): Promise<Response> {
    if (path.split('/').some(part => part === '' || part === '.' || part === '..' || /[?#]/.test(part))) {
        throw new TypeError('a path that could be read in more than one way; a query goes into the option `query`')
    }
    const { query, signal, presence, ...rest } = init
    const method = (rest.method ?? 'GET').toUpperCase()
    const again = ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS'].includes(method)
    const streams = typeof ReadableStream !== 'undefined' && rest.body instanceof ReadableStream
    const address = escaped(`${calls.broker}/v1/relay/${upstream}/${path}`)
    const url = `${address}${query ? `?${query}` : ''}`
    const mending = new Mending()
    if (presence) {
        asking.presenceKey()
        const { session } = await calls.keeping.kept()
        if (session && (await asking.canAsk(session))) mending.presence = await asking.presence(method, address, session, false, signal)
    }
    const attempt = async (): Promise<Attempt<Response>> => {
        const kept = await calls.keeping.kept()
        const stepUps = calls.user.stepUps
        const headers = new Headers(rest.headers)
        if (kept.session) headers.set('Authorization', `Bearer ${kept.session}`)
        if (mending.presence) headers.set('Coatcheck-Presence', mending.presence)
        let shown: Fields
        try {
            shown = await calls.proofs.evidence('session', method, address, kept.session, mending, { signal })
        } catch (lost) {
            return await calls.unsent(lost, kept.session, signal)
        }
        for (const name of Object.keys(shown)) headers.set(name, shown[name])
        let answer: Response
        try {
            answer = await calls.send(url, { ...rest, method, headers, signal, redirect: 'manual', credentials: calls.credentials() })
        } catch (lost) {
            if (signal?.aborted || !again) throw signal?.aborted ? lost : new Unreachable(String(lost))
            return { failure: new Unreachable(String(lost)) }
        }
        if (answer.headers.get('Coatcheck-Source') === 'upstream' || (answer.type as string) === 'opaqueredirect') return { value: answer }
        const problem = await calls.problem(answer)
        if (!problem) return again ? { failure: new Unreachable(`status ${answer.status}`) } : fail(new Unreachable(`status ${answer.status}`))
        await calls.learn(problem, kept.session)
        if (await calls.proofs.mends(problem, 'session', again, mending, shown, kept.session)) return await attempt()
        const sent = { method, address, session: kept.session, repeatable: again, stepUps }
        if (!streams && (await calls.user.asksUser(problem, sent, mending, signal))) return { failure: problem, atOnce: true }
        // After a 408, the upstream may have received part of the request. After the broker's 503 or 429, it has received
        // nothing.
        if (!problem.passes || (!again && problem.code === 'request_timeout')) throw problem
        return { failure: problem, retryAfter: retryAfter(answer.headers) }
    }
    return await calls.repeated<Response>(calls.deadline, signal, attempt)
}

/** Yields the events of the session until the session ends. Reconnects if the stream breaks. */
async function* listened(calls: Calls, signal?: AbortSignal): AsyncGenerator<SessionEvent, void, void> {
    let mending = new Mending()
    const url = `${calls.broker}/v1/session/events`
    for (let number = 0; ; number += 1) {
        let pause = (500 + Math.random() * 500) * 2 ** Math.min(number, 5)
        const kept = await calls.keeping.kept()
        const sessions = calls.keeping.sessions
        const headers: Fields = kept.session ? { Authorization: `Bearer ${kept.session}` } : {}
        try {
            // A proof opens the stream, because a stream that a pass has opened ends with the pass.
            Object.assign(headers, await calls.proofs.evidence('proof', 'GET', url, kept.session, mending, { signal }))
            const answer = await calls.send(url, { headers, signal, credentials: calls.credentials() })
            if (answer.status === 200) {
                mending = new Mending()
                const body = (answer as { body?: unknown }).body as Stream | null | undefined
                if (!body) throw new TypeError('this fetch cannot stream')
                for await (const event of streamed(body)) {
                    number = 0
                    if (event.kind === 'session') event.session = await calls.keeping.remember(event.session, kept.session, sessions)
                    if (event.kind === 'ended') await calls.keeping.forget(kept.session)
                    yield event
                    if (event.kind === 'ended') return
                }
            } else {
                const problem = await calls.problem(answer)
                if (problem) {
                    await calls.learn(problem, kept.session)
                    if (problem.endsSession) {
                        yield { kind: 'ended', reason: problem.reason }
                        return
                    }
                    if (await calls.proofs.mends(problem, 'proof', true, mending, headers, kept.session)) continue
                    if (!problem.passes) throw problem
                }
                pause = Math.max(pause, retryAfter(answer.headers) ?? 0)
            }
        } catch (lost) {
            if (signal?.aborted) throw lost
            if (lost instanceof KeyLost) {
                await calls.keeping.forget(kept.session)
                yield { kind: 'ended', reason: 'key_lost' }
                return
            }
            if (lost instanceof KeyFailure) thrownByKey(lost)
            if (lost instanceof Problem || (lost instanceof TypeError && lost.message === 'this fetch cannot stream')) throw lost
        }
        await sleep(pause, signal)
    }
}

/** Yields the events of a stream as they arrive. */
async function* streamed(body: Stream): AsyncGenerator<SessionEvent, void, void> {
    const reader = body.getReader()
    const decoder = new TextDecoder()
    let buffer = ''
    try {
        for (;;) {
            // The broker sends something at least every 25 seconds, so 60 seconds of silence mean that the connection is dead.
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

// ==== sources/coatcheck.ts ==============================================================================================

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
