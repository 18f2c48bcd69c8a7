// The values that an app gives and receives: sessions, outcomes, demands, and errors.
import { AbortSignal, Fetch } from './platform'
import { CredentialStorage } from './storage'
import { ProofKey } from './keys'

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
export function newest(known: Session | undefined, answer: Session): Session {
    return known && known.handle === answer.handle && (known.version ?? 0) > (answer.version ?? Infinity) ? known : answer
}

export function demandOf(json: { acr_values?: string; max_age?: number }): StepUp {
    const demand: StepUp = {}
    if (json.acr_values !== undefined) demand.acrValues = json.acr_values.split(' ').filter(word => word !== '')
    if (json.max_age !== undefined) demand.maxAge = json.max_age
    return demand
}

export function written(demand: StepUp | undefined): object | undefined {
    return demand && { acr_values: demand.acrValues?.join(' '), max_age: demand.maxAge }
}

/** Whether a sign-in that meets the demand `one` also meets the demand `other`. */
export function covers(one: StepUp, other: StepUp): boolean {
    const strong = !other.acrValues || (one.acrValues?.every(word => other.acrValues?.includes(word)) ?? false)
    return strong && (other.maxAge === undefined || (one.maxAge ?? Infinity) <= other.maxAge)
}

/** Returns a demand that combines both demands, or null if no `acr` value meets both. */
export function joined(one: StepUp, other: StepUp): StepUp | null {
    const acrValues = one.acrValues && other.acrValues ? one.acrValues.filter(word => other.acrValues?.includes(word)) : one.acrValues ?? other.acrValues
    if (acrValues?.length === 0) return null
    const maxAge = Math.min(one.maxAge ?? Infinity, other.maxAge ?? Infinity)
    return { ...(acrValues ? { acrValues } : {}), ...(maxAge < Infinity ? { maxAge } : {}) }
}
