// The data that a device keeps, and the order of its changes.
import { newest, Session } from './values'

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
export class Keeping {
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
